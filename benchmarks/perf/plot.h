#pragma once

#include <string>

#include "perf/results.h"

namespace kvrail::perf {

// An SVG image of the test "write": GB/s over page sizes, a curve per contender through the medians
// of its rounds, with bars from the slowest to the fastest. Throws Error (kInvalidArgument) if that
// test was not run.
std::string plot_svg(const Results& results);

}  // namespace kvrail::perf

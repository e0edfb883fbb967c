#pragma once

#include <string>

#include "perf/results.h"

namespace kvrail::perf {

// For people: where it was measured, a row per case, the ratios.
std::string table_text(const Results& results);

}  // namespace kvrail::perf

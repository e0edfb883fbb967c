#pragma once

#include <functional>

namespace kvrail::perf {

// What main() of a measuring program returns: what `run` does, or 1 with a line on standard error
// that says what it threw.
int run_program(const char* name, const std::function<int()>& run);

}  // namespace kvrail::perf

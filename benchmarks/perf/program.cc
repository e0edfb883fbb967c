#include "perf/program.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

namespace kvrail::perf {

int run_program(const char* name, const std::function<int()>& run) {
  try {
    return run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace kvrail::perf

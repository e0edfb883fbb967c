#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/settings.h"

namespace kvrail::perf {

// Cores that this process may run on, as it was started.
std::vector<int> allowed_cores();
// Binds the calling thread and those that it starts. Throws Error (kInvalidArgument).
void pin_to(int core);
// The clock of the library's reports, CLOCK_MONOTONIC, in nanoseconds.
std::int64_t monotonic_ns();
// User and system time of this process, in seconds.
double cpu_seconds();
// Name, CPU, cores, kernel, TCP congestion control and libfabric version of this host.
Json describe_host();

}  // namespace kvrail::perf

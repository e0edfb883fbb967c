#pragma once

#include <string>
#include <vector>

#include "perf/settings.h"

namespace kvrail::perf {

// Cores that this process may run on, as it was started.
std::vector<int> allowed_cores();
// Binds the calling thread and those that it starts. Throws Error (kInvalidArgument).
void pin_to(int core);
// User and system time of this process, in seconds.
double cpu_seconds();
// Name, CPU, cores, kernel and libfabric version of this host.
Json describe_host();

}  // namespace kvrail::perf

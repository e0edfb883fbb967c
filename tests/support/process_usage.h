#pragma once

#include <chrono>
#include <cstdint>

namespace kvrail {

// What this process holds and has used, as the kernel says.
struct ProcessUsage {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t resident_bytes = 0;
  std::chrono::nanoseconds cpu_time{0};
};

ProcessUsage process_usage();

// Raises the limit of open files to what the host allows and returns it.
std::uint64_t raise_descriptor_limit();

}  // namespace kvrail

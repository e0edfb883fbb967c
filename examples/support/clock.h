#pragma once

#include <chrono>
#include <cstdint>

namespace mock_engine {

// CLOCK_MONOTONIC in nanoseconds, as kvrail's reports: comparable between processes of one host.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace mock_engine

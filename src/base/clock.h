#pragma once

#include <ctime>

#include <cstdint>

namespace kvrail {

inline constexpr std::int64_t kNsPerMs = 1'000'000;

// CLOCK_MONOTONIC in nanoseconds: comparable between the processes of one host, never across hosts.
inline std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Tells the core that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace kvrail

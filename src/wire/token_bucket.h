#pragma once

#include <algorithm>
#include <cstdint>

namespace kvrail {

// Lets things happen so many times per second in the long run, and at most `burst` times at once.
// Threads: one.
class TokenBucket {
 public:
  // What is meant where a rate alone is given: half a second's worth.
  static std::uint32_t burst_of(std::uint32_t per_second) {
    return std::max<std::uint32_t>(per_second / 2, 1);
  }

  // 0 per second: any number.
  TokenBucket(std::uint32_t per_second, std::uint32_t burst)
      : interval_ns_(per_second == 0 ? 0 : kNsPerSecond / per_second),
        burst_ns_(interval_ns_ * std::max<std::int64_t>(burst, 1)) {}

  // 0: a token is taken. Else in how many nanoseconds there will be one. Times never go back.
  std::int64_t take(std::int64_t now_ns) {
    // A bucket is as full as its last empty moment is long ago.
    empty_at_ns_ = std::max(empty_at_ns_, now_ns - burst_ns_);
    const std::int64_t missing_ns = empty_at_ns_ + interval_ns_ - now_ns;
    if (missing_ns > 0) return missing_ns;
    empty_at_ns_ += interval_ns_;
    return 0;
  }

 private:
  static constexpr std::int64_t kNsPerSecond = 1'000'000'000;

  std::int64_t interval_ns_;
  std::int64_t burst_ns_;
  std::int64_t empty_at_ns_ = 0;  // the bucket was empty, or would have been, at this time
};

}  // namespace kvrail

#pragma once

#include <chrono>
#include <thread>

namespace kvrail {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KVRAIL_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVRAIL_TEST_SANITIZED 1
#endif

#ifdef KVRAIL_TEST_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Work that a test repeats: less of it where a sanitizer makes each piece slow.
constexpr int scaled(int count) { return kSanitized ? (count + 7) / 8 : count; }

// The point in time by which a condition has to hold. The default is far beyond what any wait
// takes on a busy machine, so that passing it means a fault.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds from_now = std::chrono::seconds(kSanitized ? 60 : 20))
      : at_(std::chrono::steady_clock::now() + from_now) {}

  bool passed() const { return std::chrono::steady_clock::now() >= at_; }
  std::chrono::steady_clock::time_point at() const { return at_; }

 private:
  std::chrono::steady_clock::time_point at_;
};

// Waits until `condition()` holds; false when the deadline passes first. For conditions that
// nothing signals; the nap only keeps the wait from taking a core.
template <class Condition>
bool poll_until(Condition condition, Deadline deadline = Deadline()) {
  while (!condition()) {
    if (deadline.passed()) return condition();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// Whether `condition()` holds all through the time given: for what must not happen.
template <class Condition>
bool holds_for(std::chrono::milliseconds time, Condition condition) {
  return !poll_until([&] { return !condition(); }, Deadline(time));
}

}  // namespace kvrail

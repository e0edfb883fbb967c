#pragma once

#include <atomic>
#include <cassert>
#include <thread>

namespace kvrail {

// Checks in debug builds that a set of objects is used by one thread. The first call binds it.
class ThreadChecker {
 public:
  // The calling thread is the owner from now on.
  void bind() { owner_.store(std::this_thread::get_id(), std::memory_order_relaxed); }
  void check() const {
    assert(owner_.load(std::memory_order_relaxed) == std::this_thread::get_id());
  }
  bool is_current() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  std::atomic<std::thread::id> owner_{};
};

}  // namespace kvrail

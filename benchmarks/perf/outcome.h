#pragma once

#include <atomic>
#include <future>

#include "kvrail/error.h"

namespace kvrail::perf {

// Set by the first of several callbacks that has something to say. Threads: any.
class Outcome {
 public:
  // Once, before set().
  std::future<Status> future() { return promise_.get_future(); }
  void set(const Status& status);

 private:
  std::atomic<bool> told_{false};
  std::promise<Status> promise_;
};

// Waits until an outcome is known. Throws Error: what it says unless it is good, or kDeadline,
// which names `what` is missing.
void wait_for(std::future<Status>& outcome, const char* what);

}  // namespace kvrail::perf

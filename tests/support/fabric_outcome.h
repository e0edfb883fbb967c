#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "kvrail/transfer_engine.h"
#include "support/process_deadline.h"

namespace kvrail {

// What a callback reported, for a test to wait on. Counts the calls, since each callback is owed
// once.
//
// Threads: any.
template <class Value>
class Outcome {
 public:
  void report(Value value) {
    {
      const std::lock_guard lock(mutex_);
      if (calls_++ == 0) value_ = std::move(value);
    }
    changed_.notify_all();
  }

  // None when the deadline passes first.
  std::optional<Value> wait(Deadline deadline = Deadline()) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.at(), [this] { return calls_ > 0; });
    return value_;
  }
  int calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Value> value_;
  int calls_ = 0;
};

struct WriteResult {
  Status status;
  WriteReport report;
};
struct CounterResult {
  Status status;
  CounterReport report;
};
struct Closed {};

using WriteOutcome = std::shared_ptr<Outcome<WriteResult>>;
using CounterOutcome = std::shared_ptr<Outcome<CounterResult>>;
using ClosedOutcome = std::shared_ptr<Outcome<Closed>>;

inline WriteCallback report_to(WriteOutcome outcome) {
  return [outcome = std::move(outcome)](const Status& status, const WriteReport& report) {
    outcome->report({status, report});
  };
}
inline CounterCallback report_to(CounterOutcome outcome) {
  return [outcome = std::move(outcome)](const Status& status, const CounterReport& report) {
    outcome->report({status, report});
  };
}
inline ClosedCallback report_to(ClosedOutcome outcome) {
  return [outcome = std::move(outcome)] { outcome->report({}); };
}

template <class Value>
std::shared_ptr<Outcome<Value>> make_outcome() {
  return std::make_shared<Outcome<Value>>();
}

}  // namespace kvrail

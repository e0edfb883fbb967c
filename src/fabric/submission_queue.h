#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "kvrail/write_list.h"

namespace kvrail {

// The places in which the submissions of one (peer, device group) wait until they are posted. A
// peer that is slow fills its own queue and nobody else's.
//
// Threads: any.
class SubmissionQueue {
 public:
  // A place taken; left at most once. The queue outlives it.
  class Place {
   public:
    Place() = default;
    explicit Place(SubmissionQueue* queue) : queue_(queue) {}
    Place(Place&& other) noexcept : queue_(other.queue_) { other.queue_ = nullptr; }
    Place& operator=(Place&& other) noexcept;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { leave(); }

    void leave();

   private:
    SubmissionQueue* queue_ = nullptr;
  };

  explicit SubmissionQueue(std::uint32_t length) : free_(length) {}

  // None when the queue is full and `when_full` refuses, or when it is closed.
  std::optional<Place> enter(FullQueue when_full);
  // Those who wait are refused, and everyone after.
  void close();
  bool is_closed() const;

 private:
  bool take();
  void give_back();

  // A place is given back to free_ before waiting_ is looked at, and who waits is counted there
  // before it looks at free_ (all sequentially consistent): one of them sees the other.
  std::atomic<std::uint32_t> free_;
  std::atomic<std::uint32_t> waiting_{0};
  // Stored by close() (release), loaded by the others (acquire).
  std::atomic<bool> closed_{false};
  std::mutex mutex_;  // of those who wait, and those who wake them
  std::condition_variable room_;
};

}  // namespace kvrail

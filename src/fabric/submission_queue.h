#pragma once

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
  void give_back();

  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::uint32_t free_;
  bool closed_ = false;
};

}  // namespace kvrail

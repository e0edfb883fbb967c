#include "fabric/submission_queue.h"

#include <utility>

namespace kvrail {

SubmissionQueue::Place& SubmissionQueue::Place::operator=(Place&& other) noexcept {
  if (this != &other) {
    leave();
    queue_ = std::exchange(other.queue_, nullptr);
  }
  return *this;
}

void SubmissionQueue::Place::leave() {
  if (queue_ != nullptr) std::exchange(queue_, nullptr)->give_back();
}

std::optional<SubmissionQueue::Place> SubmissionQueue::enter(FullQueue when_full) {
  std::unique_lock lock(mutex_);
  if (when_full == FullQueue::kBlock) {
    room_.wait(lock, [&] { return free_ > 0 || closed_; });
  }
  if (free_ == 0 || closed_) return std::nullopt;
  --free_;
  return Place(this);
}

void SubmissionQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  room_.notify_all();
}

bool SubmissionQueue::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void SubmissionQueue::give_back() {
  const std::lock_guard lock(mutex_);
  ++free_;
  room_.notify_one();
}

}  // namespace kvrail

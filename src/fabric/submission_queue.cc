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

bool SubmissionQueue::take() {
  std::uint32_t free = free_.load(std::memory_order_seq_cst);
  while (free > 0) {
    if (free_.compare_exchange_weak(free, free - 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

std::optional<SubmissionQueue::Place> SubmissionQueue::enter(FullQueue when_full) {
  if (is_closed()) return std::nullopt;
  if (take()) return Place(this);
  if (when_full == FullQueue::kRefuse) return std::nullopt;
  std::unique_lock lock(mutex_);
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  bool taken = false;
  room_.wait(lock, [&] { return is_closed() || (taken = take()); });
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return taken ? std::optional<Place>(this) : std::nullopt;
}

void SubmissionQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_.store(true, std::memory_order_release);
  room_.notify_all();
}

bool SubmissionQueue::is_closed() const { return closed_.load(std::memory_order_acquire); }

void SubmissionQueue::give_back() {
  free_.fetch_add(1, std::memory_order_seq_cst);
  if (waiting_.load(std::memory_order_seq_cst) == 0) return;
  const std::lock_guard lock(mutex_);
  room_.notify_one();
}

}  // namespace kvrail

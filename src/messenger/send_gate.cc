#include "messenger/send_gate.h"

#include <utility>

#include "messenger/request_sender.h"

namespace kvrail {

bool SendGate::wait_behind_others(std::shared_ptr<RequestSender> sender) {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty() && turns_ == 0) return false;
  waiting_.push_back(std::move(sender));
  return true;
}

void SendGate::wait(std::shared_ptr<RequestSender> sender, Place place) {
  const std::lock_guard lock(mutex_);
  if (place == Place::kFront) {
    waiting_.push_front(std::move(sender));
  } else {
    waiting_.push_back(std::move(sender));
  }
}

void SendGate::on_completion() {
  while (const auto sender = begin_turn()) {
    const bool goes_on = sender->resume(*this);
    end_turn();
    if (!goes_on) return;
  }
}

std::shared_ptr<RequestSender> SendGate::begin_turn() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return nullptr;
  auto sender = std::move(waiting_.front());
  waiting_.pop_front();
  ++turns_;
  return sender;
}

void SendGate::end_turn() {
  const std::lock_guard lock(mutex_);
  --turns_;
}

}  // namespace kvrail

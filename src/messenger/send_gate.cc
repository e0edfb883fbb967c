#include "messenger/send_gate.h"

#include <utility>

#include "messenger/request_sender.h"

namespace kvrail {

void SendGate::wait(std::shared_ptr<RequestSender> sender) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(sender));
}

void SendGate::on_completion() {
  while (const auto sender = next()) {
    if (!sender->resume()) return;
  }
}

std::shared_ptr<RequestSender> SendGate::next() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return nullptr;
  auto sender = std::move(waiting_.front());
  waiting_.pop_front();
  return sender;
}

}  // namespace kvrail

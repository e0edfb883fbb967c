#include "messenger/due_writes.h"

namespace kvrail {

bool DueWrites::take_turn(const SendGate& gate) {
  if (waiting_at_ != &gate) return false;
  waiting_at_ = nullptr;
  return true;
}

Status DueWrites::submit(const std::shared_ptr<RequestSender>& sender, const SendGate* turn,
                         const Submit& submit) {
  while (!due_.empty()) {
    SendGate& gate = *due_.front().gate;
    if (!waits() && &gate != turn && gate.wait_behind_others(sender)) {
      waiting_at_ = &gate;
      break;
    }
    Status status = submit(due_.front());
    if (status.ok()) {
      due_.pop_front();
      waiting_at_ = nullptr;
    } else if (status.code() != ErrorCode::kQueueFull) {
      return status;
    } else if (!waits()) {
      // Once registered, it tries again, since all that filled the queue may be over by now.
      waiting_at_ = &gate;
      gate.wait(sender, &gate == turn ? SendGate::Place::kFront : SendGate::Place::kBack);
    } else {
      break;
    }
  }
  return {};
}

void DueWrites::drop() {
  dropped_ |= !due_.empty();
  due_.clear();
  waiting_at_ = nullptr;
}

void DueWrites::renew() {
  drop();
  dropped_ = false;
}

}  // namespace kvrail

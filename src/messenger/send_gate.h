#pragma once

#include <deque>
#include <memory>
#include <mutex>

namespace kvrail {

class RequestSender;

// Where the senders of one peer wait while its submission queue is full. The queue holds nothing
// but their own submissions, so the completion of one of those lets the next try again.
//
// Threads: any.
class SendGate {
 public:
  // The sender is resumed at a later completion. Register, then try once more: a completion in
  // between would have found nobody waiting.
  void wait(std::shared_ptr<RequestSender> sender);

  // A submission has completed. Resumes those that wait, in turn, until one is refused again.
  // Takes their locks.
  void on_completion();

 private:
  std::shared_ptr<RequestSender> next();

  std::mutex mutex_;
  std::deque<std::shared_ptr<RequestSender>> waiting_;  // guarded by mutex_
};

}  // namespace kvrail

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace kvrail {

class RequestSender;

// Where the senders of one peer wait while the submission queue of one of our device groups is
// full, first come, first served: whoever comes while others wait goes behind them. The queue holds
// nothing but their own submissions, so the completion of one of those lets the next try again.
//
// Invariant: as long as someone waits, a completion is still to come. Whoever was refused tries
// once more after it is added, and either has a submission outstanding then or saw the queue full
// of others'; whoever goes behind others waits for the same, or behind a turn, whose end looks for
// it.
//
// Threads: any.
class SendGate {
 public:
  enum class Place {
    kFront,  // it was its turn, and it has more to submit
    kBack,
  };

  // Puts the sender behind those that wait or have their turn, to be resumed in its own; false if
  // nobody does.
  bool wait_behind_others(std::shared_ptr<RequestSender> sender);
  // The sender was refused and is resumed at a later completion. Register, then try once more: a
  // completion in between would have found nobody waiting.
  void wait(std::shared_ptr<RequestSender> sender, Place place);

  // A submission has completed. Resumes those that wait, in turn, until one is refused again.
  // Takes their locks.
  void on_completion();

 private:
  std::shared_ptr<RequestSender> begin_turn();
  void end_turn();

  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<RequestSender>> waiting_;
  std::uint32_t turns_ = 0;  // under way, of senders that are not in waiting_ then
};

}  // namespace kvrail

#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "kvrail/write_list.h"
#include "messenger/send_gate.h"

namespace kvrail {

class RequestSender;

// A submission that a request is to make next.
struct DueWrite {
  static constexpr std::size_t kNoPart = ~std::size_t{0};

  WriteList list;
  std::shared_ptr<SendGate> gate;  // of the queue that it goes into
  RankIndex source_rank;
  std::size_t target_group = 0;  // its place among the request's counters
  std::size_t part = kNoPart;    // its place among the report's layers
};

// What a request has prepared and not submitted yet, in order: of one part, the rest of which a
// queue had no room for. While there is a rest, the request waits at that queue's gate.
//
// Threads: one at a time, the sender's own lock.
class DueWrites {
 public:
  // The engine's answer to one submission, kQueueFull if it has no room.
  using Submit = std::function<Status(DueWrite&)>;

  void add(DueWrite due) { due_.push_back(std::move(due)); }
  bool empty() const { return due_.empty(); }
  // Whether something was dropped since renew().
  bool dropped() const { return dropped_; }
  bool waits() const { return waiting_at_ != nullptr; }
  bool waits_at(const SendGate* gate) const { return waiting_at_ == gate; }
  // The gate lets the request try again. False if it does not wait there any more: it has got in
  // after it was added, waits at another one, or has other links.
  bool take_turn(const SendGate& gate);

  // Submits in order, until one has to wait. `turn`: the gate whose turn it is, if any. Returns
  // what a submission failed of, if not of a full queue; it is still the first then.
  Status submit(const std::shared_ptr<RequestSender>& sender, const SendGate* turn,
                const Submit& submit);

  // Gives up what is left. A gate that still holds the request passes over it.
  void drop();
  // As drop(), and what was given up will be prepared again.
  void renew();

 private:
  std::deque<DueWrite> due_;
  const SendGate* waiting_at_ = nullptr;  // only while something is due
  bool dropped_ = false;
};

}  // namespace kvrail

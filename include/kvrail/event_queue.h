#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kvrail/decode_scheduler.h"
#include "kvrail/prefill_scheduler.h"

namespace kvrail {

struct PrefillRequestedEvent {
  PrefillRequest request;
};
struct CancelledEvent {
  RequestId request;
  Status reason;
};
struct PagesReleasedEvent {
  RequestId request;
  Status result;
  SendReport report;
};
struct ReadyEvent {
  RequestId request;
  ReceiveReport report;
};
struct FailedEvent {
  RequestId request;
  Status reason;
  bool quiescent = false;
  std::vector<MissingPages> missing;
};
struct QuiescentEvent {
  RequestId request;
  Quiescence how = Quiescence::kCounted;
};
struct PeerAttachedEvent {
  PeerId peer;
  std::string peer_name;
};
struct PeerLostEvent {
  PeerId peer;
  std::string peer_name;
  Status reason;
};

using Event = std::variant<PrefillRequestedEvent, CancelledEvent, PagesReleasedEvent, ReadyEvent,
                           FailedEvent, QuiescentEvent, PeerAttachedEvent, PeerLostEvent>;

// A PrefillScheduler and DecodeScheduler for engines with a loop of their own: callbacks become
// events, in order.
//
// prefill() and decode() are what start() is given; each peer that comes or goes is one event, also
// where both are used: ask for prefill() before start().
// Threads: any. The queue must outlive the messenger that it is given to, and holds as many events
// as nobody has polled.
class EventQueue {
 public:
  // Throws Error (kLimit) if no descriptor can be had.
  EventQueue();
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  PrefillScheduler* prefill();
  DecodeScheduler* decode();

  // The oldest event, or none. Never blocks.
  std::optional<Event> poll();

  // For poll(2) or epoll(7): readable while events wait. Owned by the queue; only to be waited on.
  int descriptor() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrail

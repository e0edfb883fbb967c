#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/decode_scheduler.h"
#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "kvrail/kv_layout.h"
#include "kvrail/transfer_engine.h"
#include "messenger/attached_peer.h"
#include "messenger/peer_messages.h"
#include "wire/control_loop.h"
#include "wire/message.h"

namespace kvrail {

class RequestReceiver;

// What the receivers of a messenger share.
class ReceiverOwner {
 public:
  virtual ~ReceiverOwner() = default;
  // The request's id and external id are free; its last call of the scheduler follows. The receiver
  // may be destroyed inside.
  virtual void receiver_ended(RequestReceiver& receiver, bool ready) = 0;
};

// The decode side of one request, from the call of the engine until its pages are the engine's
// again.
//
//   receiving --all units in--> ended (on_ready)
//   receiving --Reject, or Failed and all posted units in--> ended (on_failed, quiescent)
//   receiving --Failed--> draining (on_failed) --all posted units in--> ended (on_quiescent,
//   counted) receiving --peer lost--> fencing (on_failed) --links closed--> ended (on_quiescent,
//   proved) draining --peer lost--> fencing receiving --this node closes--> fencing --links
//   closed--> ended (on_failed, quiescent)
//
// Threads: the messenger's. Counter callbacks, which come from workers, are posted to it.
class RequestReceiver : public std::enable_shared_from_this<RequestReceiver> {
 public:
  struct Environment {
    TransferEngine& engine;
    ControlLoop& loop;
    const KvLayout& layout;
    DecodeScheduler& scheduler;
    PeerMessages& peers;
    ReceiverOwner& owner;
    // How long posted units may take to arrive before they count as lost.
    std::uint32_t drain_limit_ms;
  };

  // The request has been checked against the layout.
  RequestReceiver(const Environment& environment, RequestId id,
                  std::shared_ptr<const AttachedPeer> peer, DecodeRequest request, TokenRange sent,
                  std::int64_t requested_ns);

  RequestId id() const { return id_; }
  PeerId peer() const { return peer_->id; }
  const std::string& external_id() const { return request_.external_id; }

  // Takes counters and asks the peer.
  void start();

  // Messages of the peer; false where they make no sense any more.
  bool on_reject(const PrefillRejectMessage& message);
  bool on_failed(const FailedMessage& message);

  // The peer is lost and its links are about to be closed. `quietly`: since this node closes.
  void on_peer_lost(const Status& reason, bool quietly);
  void on_links_closed();

 private:
  enum class State { kReceiving, kDraining, kFencing, kEnded };

  struct Group {
    DeviceGroupId id;
    CounterId counter;
    std::uint64_t expected = 0;
    std::uint64_t posted = 0;  // final, once the prefill side has given up
    bool reached = false;
  };

  void on_counter(std::size_t group, const Status& status, const CounterReport& report);
  void finish_ready();
  void finish_failed(const Status& reason, bool quiescent);
  std::optional<bool> drained();
  void drain();
  void blame(const Status& reason);
  void release_counters();
  void end(bool ready);

  const Environment& environment_;
  const RequestId id_;
  const std::shared_ptr<const AttachedPeer> peer_;
  DecodeRequest request_;
  const TokenRange sent_;

  State state_ = State::kReceiving;
  std::vector<Group> groups_;
  std::size_t groups_left_ = 0;
  ReceiveReport report_;
  std::optional<Status> unsaid_;  // the failure to be told when the links are closed
  std::int64_t drain_until_ns_ = 0;
  std::unique_ptr<ControlLoop::Timer> drain_timer_;
};

}  // namespace kvrail

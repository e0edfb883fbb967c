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
//   waiting    it has no links yet, or not any more: nothing can land
//   receiving  asked for, and counted
//   cancelling given up here: the prefill node is to say what it posted
//   draining   given up, and what was posted is known: it is waited for
//   fencing    the links are being closed, since nothing else proves that nothing can land
//   ended
//
// on_ready ends it from receiving. Every other end is told by on_failed, and where that comes
// before the proof, by on_quiescent at the end: counted from cancelling or draining, proved from
// fencing.
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
    // How long the answer to a Cancel, and then the units that were posted, may take.
    std::uint32_t drain_limit_ms;
  };

  // The request has been checked against the layout.
  RequestReceiver(const Environment& environment, RequestId id,
                  std::shared_ptr<const AttachedPeer> peer, DecodeRequest request, TokenRange sent,
                  std::int64_t requested_ns);

  RequestId id() const { return id_; }
  PeerId peer() const { return peer_->id; }
  const std::string& external_id() const { return request_.external_id; }

  // Takes counters and asks the peer; its deadline runs from now. Without links: waits for them.
  void start(bool linked);

  // The engine gives it up.
  void cancel(const std::string& reason);

  // Messages of the peer; false where they make no sense any more.
  bool on_reject(const PrefillRejectMessage& message);
  bool on_failed(const FailedMessage& message);
  bool on_cancel_ack(const CancelAckMessage& message);

  // The peer is lost and its links are about to be closed. `quietly`: since this node closes.
  void on_peer_lost(const Status& reason, bool quietly);
  void on_links_closed();

  // The links are closed, to be replaced by others; and are replaced.
  void on_links_fenced();
  void on_relinked(std::shared_ptr<const AttachedPeer> peer);

 private:
  enum class State { kWaiting, kReceiving, kCancelling, kDraining, kFencing, kEnded };

  struct Group {
    DeviceGroupId id;
    CounterId counter;
    std::uint64_t expected = 0;
    std::uint64_t posted = 0;  // final, once the prefill side has given up
    bool reached = false;
  };

  std::vector<CounterEntry> take_counters();
  void ask();
  void on_counter(std::uint32_t links, std::size_t group, const Status& status,
                  const CounterReport& report);
  void finish_ready();
  void give_up(Status reason, bool tell);
  void on_deadline();
  std::string missing_text() const;
  bool take_posted(std::uint32_t links, const std::vector<UnitsEntry>& posted);
  void begin_drain();
  std::optional<bool> drained();
  std::optional<std::uint64_t> arrived_on(const Group& group) const;
  Status show_arrivals() const;
  void drain();
  void settle(Quiescence how);
  void tell_failed(bool quiescent);
  void blame(const Status& reason);
  void watch_limit();
  void release_counters();
  void end(bool ready);

  const Environment& environment_;
  const RequestId id_;
  std::shared_ptr<const AttachedPeer> peer_;
  DecodeRequest request_;
  const TokenRange sent_;

  State state_ = State::kWaiting;
  bool asked_ = false;  // the prefill node knows of it
  std::vector<Group> groups_;
  std::size_t groups_left_ = 0;
  ReceiveReport report_;
  Status reason_;      // why it was given up
  bool told_ = false;  // on_failed was called
  std::int64_t limit_ns_ = 0;
  std::unique_ptr<ControlLoop::Timer> timer_;  // of the limit
  std::unique_ptr<ControlLoop::Timer> deadline_;
};

}  // namespace kvrail

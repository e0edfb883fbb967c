#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/prefill_scheduler.h"
#include "kvrail/transfer_engine.h"
#include "messenger/attached_peer.h"
#include "messenger/cancelled_requests.h"
#include "messenger/peer_messages.h"
#include "messenger/request_sender.h"
#include "messenger/sender_table.h"
#include "messenger/source_load.h"
#include "messenger/step_dispatch.h"
#include "wire/control_loop.h"
#include "wire/message.h"

namespace kvrail {

// The prefill side of a messenger: its requests between the engine, the decode nodes and the steps.
//
// Threads: what the engine calls, by any; what the control streams say, by the messenger's. The
// scheduler is called by the messenger's only.
class PrefillSide final : private SenderOwner {
 public:
  // All must outlive it, and the loop must be over before it is destroyed.
  PrefillSide(TransferEngine& engine, ControlLoop& loop, const KvLayout& layout,
              PrefillScheduler& scheduler, PeerMessages& peers, LayerWatcher& watcher,
              std::atomic<std::uint64_t>& last_request_id);

  // --- What the engine calls ---
  RequestId expect(const std::string& external_id);
  void bind(RequestId request, RequestPages pages, std::uint32_t cached_tokens,
            std::optional<ContextSlot> slot);
  // Ends the request, with kRejected or kCancelled.
  void give_up(RequestId request, Status reason);
  void preempt(RequestId request);
  void context_ready(RequestId request);
  StepDispatch& steps() { return steps_; }

  // --- What the messenger's thread calls ---
  // False: late, a duplicate, or unknown.
  bool on_request(const std::shared_ptr<const AttachedPeer>& peer, PrefillRequestMessage message);
  bool on_cancel(PeerId peer, const CancelMessage& message);
  bool on_restart(const std::shared_ptr<const AttachedPeer>& peer, RestartMessage message);
  bool on_received(PeerId peer, const ReceivedMessage& message);
  // The links to the peer are given up: nothing is posted until its requests are restarted.
  void on_links_lost(PeerId peer);
  void on_peer_lost(PeerId peer, const Status& reason);
  void end_all(const Status& reason);

  // Source pages that the peer may still read are in use.
  bool has_open(PeerId peer) const { return senders_.has_open(peer); }
  std::size_t open_count() const { return senders_.open_count(); }
  // What each rank has sent.
  std::vector<std::uint64_t> sent_bytes() const { return load_->sent_bytes(); }
  std::uint64_t released_count() const { return released_.load(std::memory_order_relaxed); }

 private:
  void sender_cancelled(std::shared_ptr<RequestSender> sender, const Status& reason) override;
  void sender_preempted(std::shared_ptr<RequestSender> sender, SendReport report) override;
  void sender_ended(std::shared_ptr<RequestSender> sender, SendEnd end) override;
  void finish(const RequestSender& sender, const SendEnd& end);
  void answer_cancel(PeerId peer, std::uint64_t wire_id, const SendEnd& end);

  // Why the request cannot be served; empty if it can.
  std::string find_fault(const AttachedPeer& peer, const PrefillRequestMessage& message) const;
  std::shared_ptr<RequestSender> make_sender(std::string external_id);
  // The sender that expects this request, or a new one; null if the external id is in use.
  std::shared_ptr<RequestSender> sender_for(const std::string& external_id, bool& expected);

  TransferEngine& engine_;
  ControlLoop& loop_;
  const KvLayout& layout_;
  PrefillScheduler& scheduler_;
  PeerMessages& peers_;
  std::atomic<std::uint64_t>& last_request_id_;
  std::vector<CacheGroupIndex> group_of_layer_;
  const std::shared_ptr<SourceLoad> load_;
  SenderTable senders_;
  CancelledRequests cancelled_;  // the messenger's thread only
  StepDispatch steps_;
  std::atomic<std::uint64_t> released_{0};
};

}  // namespace kvrail

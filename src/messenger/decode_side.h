#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kvrail/decode_scheduler.h"
#include "kvrail/kv_layout.h"
#include "kvrail/transfer_engine.h"
#include "messenger/attached_peer.h"
#include "messenger/peer_messages.h"
#include "messenger/request_receiver.h"
#include "wire/control_loop.h"
#include "wire/message.h"

namespace kvrail {

// The decode side of a messenger: its requests between the engine and the prefill nodes.
//
// Threads: request() by any; everything else by the messenger's.
class DecodeSide final : private ReceiverOwner {
 public:
  struct Limits {
    std::uint32_t max_message_bytes = 0;
    std::uint32_t drain_limit_ms = 0;
  };

  // All must outlive it, and the loop must be over before it is destroyed.
  DecodeSide(TransferEngine& engine, ControlLoop& loop, const KvLayout& layout,
             DecodeScheduler& scheduler, PeerMessages& peers, Limits limits,
             std::atomic<std::uint64_t>& last_request_id);

  // KvMessenger::request_prefill.
  RequestId request(PeerId peer, DecodeRequest request);
  // KvMessenger::cancel.
  void cancel(RequestId request, const std::string& reason);

  void on_attached(std::shared_ptr<const AttachedPeer> peer);
  // False: late, a duplicate, or unknown.
  bool on_reject(PeerId peer, const PrefillRejectMessage& message);
  bool on_failed(PeerId peer, const FailedMessage& message);
  bool on_cancel_ack(PeerId peer, const CancelAckMessage& message);
  // `quietly`: this node closes, and its requests are told once they are quiescent.
  void on_peer_lost(PeerId peer, const Status& reason, bool quietly);
  void on_links_closed(PeerId peer);
  // The links to an attached peer are to be replaced; are closed; are replaced.
  void on_links_lost(PeerId peer);
  void on_links_fenced(PeerId peer);
  void on_relinked(const std::shared_ptr<const AttachedPeer>& peer);

  bool has_open(PeerId peer) const { return !receivers_of(peer).empty(); }
  std::size_t open_count() const;
  std::uint64_t ready_count() const { return ready_.load(std::memory_order_relaxed); }
  std::uint64_t failed_count() const { return failed_.load(std::memory_order_relaxed); }

 private:
  void receiver_ended(RequestReceiver& receiver, bool ready) override;

  void check(const AttachedPeer* peer, const DecodeRequest& request) const;
  std::shared_ptr<const AttachedPeer> find_peer(PeerId peer) const;
  void start(PeerId peer, RequestId id, DecodeRequest request, TokenRange sent,
             std::int64_t requested_ns);
  void fail_unasked(RequestId id, const DecodeRequest& request, TokenRange sent, PeerId peer);
  std::shared_ptr<RequestReceiver> find(PeerId peer, std::uint64_t wire_id) const;
  // The peer's answer to something that is over here: it may forget it too.
  bool answer_unknown(PeerId peer, std::uint64_t wire_id);
  std::vector<std::shared_ptr<RequestReceiver>> receivers_of(PeerId peer) const;
  void free_name(const std::string& external_id, bool ready);

  const Limits limits_;
  const RequestReceiver::Environment environment_;
  std::atomic<std::uint64_t>& last_request_id_;
  std::atomic<std::uint64_t> ready_{0};
  std::atomic<std::uint64_t> failed_{0};

  // The messenger's thread only. In order of their ids, in which they are told.
  std::map<RequestId, std::shared_ptr<RequestReceiver>> receivers_;
  std::unordered_set<PeerId> unlinked_;  // attached, and their links are being replaced

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<PeerId, std::shared_ptr<const AttachedPeer>> peers_;  // attached ones
  std::unordered_set<std::string> names_;                                  // of open requests
};

}  // namespace kvrail

#include "messenger/decode_side.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "layout/request_pages.h"
#include "wire/message_limits.h"

namespace kvrail {
namespace {

constexpr std::size_t kMaxRequestPayloadBytes = 4u << 20;
// What a PrefillRequest takes beside its pages, its id and its payload; generous.
constexpr std::size_t kMessageFrameBytes = 64u << 10;

[[noreturn]] void refuse(const std::string& external_id, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("request {}: {}", external_id, why));
}

}  // namespace

DecodeSide::DecodeSide(TransferEngine& engine, ControlLoop& loop, const KvLayout& layout,
                       DecodeScheduler& scheduler, PeerMessages& peers, Limits limits,
                       std::atomic<std::uint64_t>& last_request_id)
    : limits_(limits),
      environment_{engine, loop, layout, scheduler, peers, *this, limits.drain_limit_ms},
      last_request_id_(last_request_id) {}

RequestId DecodeSide::request(PeerId peer, DecodeRequest request) {
  check(find_peer(peer).get(), request);
  {
    const std::lock_guard lock(mutex_);
    if (!names_.insert(request.external_id).second) {
      refuse(request.external_id, "another open request has this external_id");
    }
  }
  const RequestId id(last_request_id_.fetch_add(1, std::memory_order_relaxed) + 1);
  // The last token is the decode engine's own.
  const std::uint32_t end = request.prompt_tokens - 1;
  const TokenRange sent{std::min(request.cached_tokens, end), end};
  environment_.loop.post(
      [this, peer, id, request = std::move(request), sent, requested_ns = now_ns()]() mutable {
        start(peer, id, std::move(request), sent, requested_ns);
      });
  return id;
}

void DecodeSide::check(const AttachedPeer* peer, const DecodeRequest& request) const {
  const std::string& name = request.external_id;
  if (name.empty() || name.size() > kMaxExternalIdBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("external_id has {} bytes; 1 to {} are allowed", name.size(),
                            kMaxExternalIdBytes));
  }
  if (request.prompt_tokens == 0) refuse(name, "prompt_tokens is 0; at least 1 is needed");
  if (request.cached_tokens > request.prompt_tokens) {
    refuse(name, fmt::format("cached_tokens is {}, which is more than the prompt's {}",
                             request.cached_tokens, request.prompt_tokens));
  }
  check_pages(environment_.layout, {0, request.prompt_tokens - 1}, request.pages);
  if (request.context_slot) {
    check_context_slot(environment_.layout, *request.context_slot);
    if (peer != nullptr && peer->receive && peer->receive->context_units() == 0) {
      refuse(name, fmt::format("it wants context, and the layout of {} has none", peer->label));
    }
  }
  if (peer != nullptr && !peer->receive) {
    refuse(name, fmt::format("{} does not prefill for this node", peer->label));
  }
  std::size_t pages = 0;
  for (const auto& table : request.pages.by_group) pages += table.size();
  const std::size_t size = name.size() + request.payload.size() + pages * sizeof(PageIndex::rep);
  if (request.payload.size() > kMaxRequestPayloadBytes) {
    refuse(name, fmt::format("its payload has {} bytes; at most {} are allowed",
                             request.payload.size(), kMaxRequestPayloadBytes));
  }
  if (size + kMessageFrameBytes > limits_.max_message_bytes) {
    refuse(name, fmt::format("it takes {} bytes on the control stream; raise max_message_bytes, "
                             "which is {}, on both nodes",
                             size + kMessageFrameBytes, limits_.max_message_bytes));
  }
}

std::shared_ptr<const AttachedPeer> DecodeSide::find_peer(PeerId peer) const {
  const std::lock_guard lock(mutex_);
  const auto entry = peers_.find(peer);
  return entry == peers_.end() ? nullptr : entry->second;
}

void DecodeSide::start(PeerId peer_id, RequestId id, DecodeRequest request, TokenRange sent,
                       std::int64_t requested_ns) {
  auto peer = find_peer(peer_id);
  if (!peer || !peer->receive) return fail_unasked(id, request, sent, peer_id);
  const auto receiver = std::make_shared<RequestReceiver>(environment_, id, std::move(peer),
                                                          std::move(request), sent, requested_ns);
  receivers_.emplace(id, receiver);
  receiver->start(!unlinked_.contains(peer_id));
}

void DecodeSide::fail_unasked(RequestId id, const DecodeRequest& request, TokenRange sent,
                              PeerId peer) {
  const auto missing = pages_of(environment_.layout, sent, request.pages);
  free_name(request.external_id, false);
  environment_.scheduler.on_failed(
      id,
      Status(ErrorCode::kPeerLost,
             fmt::format("request {}: peer {} is not attached", request.external_id, peer.value())),
      true, missing);
}

void DecodeSide::on_attached(std::shared_ptr<const AttachedPeer> peer) {
  const std::lock_guard lock(mutex_);
  const PeerId id = peer->id;
  peers_.emplace(id, std::move(peer));
}

std::shared_ptr<RequestReceiver> DecodeSide::find(PeerId peer, std::uint64_t wire_id) const {
  const auto entry = receivers_.find(RequestId(wire_id));
  return entry == receivers_.end() || entry->second->peer() != peer ? nullptr : entry->second;
}

void DecodeSide::cancel(RequestId request, const std::string& reason) {
  environment_.loop.post([this, request, reason] {
    const auto entry = receivers_.find(request);
    if (entry == receivers_.end()) return;
    const auto receiver = entry->second;
    receiver->cancel(reason);
  });
}

bool DecodeSide::on_reject(PeerId peer, const PrefillRejectMessage& message) {
  const auto receiver = find(peer, message.wire_id);
  return receiver && receiver->on_reject(message);
}

bool DecodeSide::on_failed(PeerId peer, const FailedMessage& message) {
  const auto receiver = find(peer, message.wire_id);
  return receiver ? receiver->on_failed(message) : answer_unknown(peer, message.wire_id);
}

bool DecodeSide::on_cancel_ack(PeerId peer, const CancelAckMessage& message) {
  const auto receiver = find(peer, message.wire_id);
  return receiver ? receiver->on_cancel_ack(message) : answer_unknown(peer, message.wire_id);
}

bool DecodeSide::answer_unknown(PeerId peer, std::uint64_t wire_id) {
  environment_.peers.send(peer, ReceivedMessage{wire_id});
  return false;
}

std::vector<std::shared_ptr<RequestReceiver>> DecodeSide::receivers_of(PeerId peer) const {
  std::vector<std::shared_ptr<RequestReceiver>> found;
  for (const auto& [id, receiver] : receivers_) {
    if (receiver->peer() == peer) found.push_back(receiver);
  }
  return found;
}

void DecodeSide::on_peer_lost(PeerId peer, const Status& reason, bool quietly) {
  {
    const std::lock_guard lock(mutex_);
    peers_.erase(peer);
  }
  unlinked_.erase(peer);
  for (const auto& receiver : receivers_of(peer)) receiver->on_peer_lost(reason, quietly);
}

void DecodeSide::on_links_closed(PeerId peer) {
  for (const auto& receiver : receivers_of(peer)) receiver->on_links_closed();
}

void DecodeSide::on_links_lost(PeerId peer) { unlinked_.insert(peer); }

void DecodeSide::on_links_fenced(PeerId peer) {
  for (const auto& receiver : receivers_of(peer)) receiver->on_links_fenced();
}

void DecodeSide::on_relinked(const std::shared_ptr<const AttachedPeer>& peer) {
  {
    const std::lock_guard lock(mutex_);
    peers_[peer->id] = peer;
  }
  unlinked_.erase(peer->id);
  for (const auto& receiver : receivers_of(peer->id)) receiver->on_relinked(peer);
}

void DecodeSide::receiver_ended(RequestReceiver& receiver, bool ready) {
  free_name(receiver.external_id(), ready);
  receivers_.erase(receiver.id());
}

void DecodeSide::free_name(const std::string& external_id, bool ready) {
  (ready ? ready_ : failed_).fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  names_.erase(external_id);
}

std::size_t DecodeSide::open_count() const {
  const std::lock_guard lock(mutex_);
  return names_.size();
}

}  // namespace kvrail

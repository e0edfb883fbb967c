#include "messenger/prefill_side.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "layout/groups_by_layer.h"
#include "layout/token_pattern.h"
#include "messenger/unit_counts.h"

namespace kvrail {
PrefillSide::PrefillSide(TransferEngine& engine, ControlLoop& loop, const KvLayout& layout,
                         PrefillScheduler& scheduler, PeerMessages& peers, LayerWatcher& watcher,
                         std::atomic<std::uint64_t>& last_request_id)
    : engine_(engine),
      loop_(loop),
      layout_(layout),
      scheduler_(scheduler),
      peers_(peers),
      last_request_id_(last_request_id),
      group_of_layer_(groups_by_layer(layout)),
      load_(std::make_shared<SourceLoad>(layout.ranks.size())),
      steps_(watcher, senders_, layout.layer_count) {}

std::shared_ptr<RequestSender> PrefillSide::make_sender(std::string external_id) {
  const RequestId id(last_request_id_.fetch_add(1, std::memory_order_relaxed) + 1);
  SenderOwner& owner = *this;
  return std::make_shared<RequestSender>(engine_, layout_, group_of_layer_, *load_, owner, id,
                                         std::move(external_id));
}

RequestId PrefillSide::expect(const std::string& external_id) {
  const auto sender = make_sender(external_id);
  if (!senders_.add(sender)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("request {} is expected or open already", external_id));
  }
  return sender->id();
}

void PrefillSide::bind(RequestId request, RequestPages pages, std::uint32_t cached_tokens,
                       std::optional<ContextSlot> slot) {
  const auto sender = senders_.find(request);
  if (!sender) return;
  sender->bind(std::move(pages), cached_tokens, slot);
  // Submitting all layers of a long prefix takes a while: not on the engine's thread.
  loop_.post([sender] { sender->pump(); });
}

void PrefillSide::give_up(RequestId request, Status reason) {
  if (const auto sender = senders_.find(request)) sender->fail(std::move(reason), true);
}

void PrefillSide::preempt(RequestId request) {
  if (const auto sender = senders_.find(request)) sender->preempt();
}

void PrefillSide::context_ready(RequestId request) {
  if (const auto sender = senders_.find(request)) {
    sender->context_ready();
    sender->pump();
  }
}

bool PrefillSide::on_request(const std::shared_ptr<const AttachedPeer>& peer,
                             PrefillRequestMessage message) {
  const SenderTable::Origin origin{peer->id, message.wire_id};
  if (senders_.find(origin)) return false;
  if (cancelled_.take(peer->id, message.wire_id)) {
    peers_.send(peer->id, PrefillRejectMessage{message.wire_id, "it was cancelled before it came"});
    return true;
  }
  if (auto fault = find_fault(*peer, message); !fault.empty()) {
    peers_.send(peer->id, PrefillRejectMessage{message.wire_id, std::move(fault)});
    return true;
  }
  bool expected = false;
  const auto sender = sender_for(message.external_id, expected);
  if (!sender) {
    peers_.send(peer->id,
                PrefillRejectMessage{message.wire_id, fmt::format("request {} is open already",
                                                                  message.external_id)});
    return true;
  }
  senders_.set_origin(sender, origin);

  PrefillRequest request;
  request.id = sender->id();
  request.external_id = message.external_id;
  request.peer = peer->id;
  request.peer_name = peer->node_name;
  request.prompt_tokens = message.prompt_tokens;
  request.sent = message.sent;
  request.wants_context = message.context_slot.has_value();
  request.payload = std::move(message.payload);

  SendTarget target;
  target.peer = peer;
  target.wire_id = message.wire_id;
  target.prompt_tokens = message.prompt_tokens;
  target.sent = message.sent;
  target.pages = std::move(message.pages);
  target.context_slot = message.context_slot;
  target.counters = std::move(message.counters);
  sender->open(std::move(target));
  if (!expected) scheduler_.on_prefill_request(request);
  return true;
}

std::shared_ptr<RequestSender> PrefillSide::sender_for(const std::string& external_id,
                                                       bool& expected) {
  for (int tries = 0; tries < 2; ++tries) {
    if (auto sender = senders_.find_expected(external_id)) {
      expected = true;
      return sender;
    }
    if (auto sender = make_sender(external_id); senders_.add(sender)) return sender;
    // The engine may have begun to expect it in between.
  }
  return nullptr;
}

std::string PrefillSide::find_fault(const AttachedPeer& peer,
                                    const PrefillRequestMessage& message) const {
  if (!peer.send) return "this node does not prefill for that peer";
  const TransferPlan& plan = peer.send->plan;
  try {
    check_pages(plan.target(), message.sent, message.pages);
    if (message.context_slot) check_context_slot(plan.target(), *message.context_slot);
  } catch (const Error& error) {
    return error.what();
  }
  if (message.context_slot && plan.context_units() == 0) {
    return "a context slot is wanted, and the prefill node's layout has none";
  }
  for (const CacheGroup& group : plan.source().groups) {
    const TokenRange tokens = crossing(group, message.sent);
    const std::uint64_t room = std::uint64_t{group.page_count} * group.page_tokens * group.cp_ranks;
    if (!tokens.empty() && tokens.end - tokens.first > room) {
      return fmt::format(
          "{} tokens of cache group {} are wanted, and the prefill node has room for "
          "{}",
          tokens.end - tokens.first, group.name, room);
    }
  }
  for (const UnitsEntry& entry : units_by_group(plan, message.pages.dp_rank, message.sent,
                                                message.context_slot.has_value())) {
    const bool counted =
        std::any_of(message.counters.begin(), message.counters.end(),
                    [&entry](const CounterEntry& counter) { return counter.group == entry.group; });
    if (!counted) return fmt::format("device group {} has no counter", entry.group.value());
  }
  return {};
}

bool PrefillSide::on_cancel(PeerId peer, const CancelMessage& message) {
  const auto sender = senders_.find({peer, message.wire_id});
  if (!sender) {
    cancelled_.add(peer, message.wire_id);
    peers_.send(peer, CancelAckMessage{message.wire_id, 0, {}, "it is not known here"});
    return false;
  }
  Status reason(ErrorCode::kCancelled, fmt::format("its decode node gave request {} up: {}",
                                                   sender->external_id(), message.reason));
  if (auto end = sender->cancel(std::move(reason))) answer_cancel(peer, message.wire_id, *end);
  return true;
}

void PrefillSide::answer_cancel(PeerId peer, std::uint64_t wire_id, const SendEnd& end) {
  peers_.send(peer, CancelAckMessage{wire_id, end.links, end.posted, end.progress});
}

bool PrefillSide::on_restart(const std::shared_ptr<const AttachedPeer>& peer,
                             RestartMessage message) {
  if (message.links != peer->links_number) return false;
  const SenderTable::Origin origin{peer->id, message.wire_id};
  const auto sender = senders_.find(origin);
  if (!sender) return false;
  if (!sender->restart(peer, std::move(message.counters))) {
    peers_.send(peer->id, FailedMessage{message.wire_id,
                                        peer->links_number,
                                        ErrorCode::kFabric,
                                        "its links failed, and its pages are not held any more",
                                        {}});
  }
  return true;
}

void PrefillSide::on_links_lost(PeerId peer) {
  for (const auto& sender : senders_.open_of(peer)) sender->suspend();
}

bool PrefillSide::on_received(PeerId peer, const ReceivedMessage& message) {
  const SenderTable::Origin origin{peer, message.wire_id};
  const auto sender = senders_.find(origin);
  if (!sender || !sender->received()) return false;
  senders_.forget(origin);
  return true;
}

void PrefillSide::on_peer_lost(PeerId peer, const Status& reason) {
  cancelled_.forget(peer);
  for (const auto& sender : senders_.forget_peer(peer)) sender->fail(reason, false);
}

void PrefillSide::end_all(const Status& reason) {
  for (const auto& sender : senders_.open()) sender->fail(reason, true);
}

void PrefillSide::sender_cancelled(std::shared_ptr<RequestSender> sender, const Status& reason) {
  loop_.post([this, sender = std::move(sender), reason] {
    scheduler_.on_cancelled(sender->id(), reason);
  });
}

void PrefillSide::sender_preempted(std::shared_ptr<RequestSender> sender, SendReport report) {
  loop_.post([this, sender = std::move(sender), report = std::move(report)] {
    scheduler_.on_pages_released(
        sender->id(),
        Status(ErrorCode::kPreempted,
               fmt::format("request {} was preempted", sender->external_id())),
        report);
  });
}

void PrefillSide::sender_ended(std::shared_ptr<RequestSender> sender, SendEnd end) {
  loop_.post([this, sender = std::move(sender), end = std::move(end)] { finish(*sender, end); });
}

void PrefillSide::finish(const RequestSender& sender, const SendEnd& end) {
  const auto origin = senders_.origin_of(sender.id());
  // Forgotten: the decode node has said that it is done, or is lost.
  if (origin && !end.status.ok() && senders_.find(*origin).get() == &sender) {
    const bool posted = std::any_of(end.posted.begin(), end.posted.end(),
                                    [](const UnitsEntry& entry) { return entry.units > 0; });
    if (end.cancel_asked) {
      answer_cancel(origin->peer, origin->wire_id, end);
    } else if (end.status.code() == ErrorCode::kRejected && !posted) {
      senders_.forget(*origin);
      peers_.send(origin->peer, PrefillRejectMessage{origin->wire_id, end.status.text()});
    } else {
      peers_.send(origin->peer, FailedMessage{origin->wire_id, end.links, end.status.code(),
                                              end.status.text(), end.posted});
    }
  }
  senders_.release(sender.id());
  released_.fetch_add(1, std::memory_order_relaxed);
  scheduler_.on_pages_released(sender.id(), end.status, end.report);
}

}  // namespace kvrail

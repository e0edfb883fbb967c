#include "messenger/link_failover.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "messenger/region_import.h"

namespace kvrail {
namespace {

// A rail that is due waits for a moment without requests, this many times for half of the retry
// time; then they are restarted for it.
constexpr std::uint32_t kMaxPutOff = 8;

}  // namespace

LinkFailover::LinkFailover(TransferEngine& engine, ControlLoop& loop, LinkOwner& owner,
                           Handshake::Side side, std::shared_ptr<const AttachedPeer> peer,
                           std::uint32_t rail_retry_ms)
    : engine_(engine),
      loop_(loop),
      owner_(owner),
      initiator_(side == Handshake::Side::kInitiator),
      rail_retry_ms_(rail_retry_ms),
      peer_(std::move(peer)),
      links_(peer_->links),
      own_rails_(engine.rail_counts(peer_->links).local, rail_retry_ms),
      peer_rails_(engine.rail_counts(peer_->links).remote, rail_retry_ms) {
  both_.emplace(number_, *links_);
}

void LinkFailover::on_rail_failed(std::uint32_t number, const RailFailure& failure) {
  // Links that are given up fail in many ways.
  if (closing_ || number != number_) return;
  std::vector<RailId> peers;
  if (failure.remote) peers.push_back(*failure.remote);
  if (!initiator_) return tell_rail_failed(failure.status, {failure.local}, std::move(peers));
  fail_over(failure.status, {failure.local}, peers);
}

bool LinkFailover::take(const Message& message) {
  if (const auto* failed = std::get_if<RailFailedMessage>(&message)) {
    take_rail_failed(*failed);
  } else if (const auto* relink = std::get_if<RelinkMessage>(&message)) {
    take_relink(*relink);
  } else if (const auto* ack = std::get_if<RelinkAckMessage>(&message)) {
    take_relink_ack(*ack);
  } else if (const auto* relinked = std::get_if<RelinkedMessage>(&message)) {
    take_relinked(*relinked);
  } else if (const auto* closed = std::get_if<LinksClosedMessage>(&message)) {
    take_links_closed(*closed);
  } else {
    return false;
  }
  return true;
}

void LinkFailover::take_rail_failed(const RailFailedMessage& message) {
  if (!initiator_) throw Error(ErrorCode::kMalformed, "the node that connected sent RailFailed");
  // Of links that are replaced by now.
  if (closing_ || message.links != number_) return;
  fail_over(Status(ErrorCode::kFabric, message.reason), message.peer_rails, message.rails);
}

void LinkFailover::fail_over(const Status& reason, const std::vector<RailId>& own,
                             const std::vector<RailId>& peers) {
  const std::int64_t now = now_ns();
  bool any = false;
  for (const RailId rail : own) any |= own_rails_.leave_out(rail, now);
  for (const RailId rail : peers) any |= peer_rails_.leave_out(rail, now);
  if (any) return replace(reason);
  owner_.links_beyond_repair(
      Status(reason.code(), fmt::format("no rail is left: {}", reason.text())));
}

void LinkFailover::replace(const Status& reason) {
  retry_.reset();
  put_off_ = 0;
  give_up_links(reason);
  ++number_;
  try {
    owner_.link_message(RelinkMessage{number_, peer_rails_.left_out(), reason.text(),
                                      engine_.offer(own_rails_.left_out())});
  } catch (const Error& error) {
    owner_.links_beyond_repair(Status(error.code(), error.what()));
  }
}

void LinkFailover::give_up_links(const Status& reason) {
  if (!std::exchange(replacing_, true)) owner_.links_lost(reason);
  close_links();
}

void LinkFailover::close_links() {
  connected_ = false;
  told_ = false;
  if (!links_) return;
  const std::uint32_t number = number_;
  old_.emplace(number, *links_);
  engine_.close_peer(*std::exchange(links_, std::nullopt),
                     [this, number, &loop = loop_, weak = std::weak_ptr(alive_)] {
                       loop.post([this, number, weak] {
                         if (weak.lock()) on_closed(number);
                       });
                     });
}

void LinkFailover::on_closed(std::uint32_t number) {
  old_.erase(number);
  if (!closing_) owner_.link_message(LinksClosedMessage{number});
  if (!old_.empty()) return;
  if (closing_) {
    if (all_closed_) std::exchange(all_closed_, {})();
    return;
  }
  owner_.links_fenced();
  finish_if_done();
}

void LinkFailover::take_relink(const RelinkMessage& message) {
  if (initiator_ || message.links != number_ + 1) {
    throw Error(
        ErrorCode::kMalformed,
        fmt::format("a Relink of links {} came, with links {} in use", message.links, number_));
  }
  if (closing_) return;
  give_up_links(Status(ErrorCode::kFabric, message.reason));
  number_ = message.links;
  PeerOptions options = owner_.link_options(number_);
  options.left_out = message.rails;
  try {
    auto introduction = engine_.accept_peer(message.fabric_offer, std::move(options));
    links_ = introduction.peer;
    both_.emplace(number_, *links_);
    owner_.link_message(RelinkAckMessage{number_, std::move(introduction.reply)});
  } catch (const RailError& error) {
    tell_rail_failed(Status(error.code(), error.what()), {error.rail()}, {});
  }
}

void LinkFailover::take_relink_ack(const RelinkAckMessage& message) {
  if (!initiator_) throw Error(ErrorCode::kMalformed, "the node that connected sent RelinkAck");
  if (closing_ || message.links != number_ || connected_) return;
  PeerOptions options = owner_.link_options(number_);
  options.left_out = own_rails_.left_out();
  try {
    auto introduction = engine_.connect_peer(message.fabric_answer, std::move(options));
    links_ = introduction.peer;
    both_.emplace(number_, *links_);
    owner_.link_message(RelinkedMessage{number_, std::move(introduction.reply)});
    connected(introduction.peer);
  } catch (const RailError& error) {
    on_rail_failed(number_, {Status(error.code(), error.what()), error.rail(), std::nullopt});
  }
}

void LinkFailover::take_relinked(const RelinkedMessage& message) {
  if (initiator_)
    throw Error(ErrorCode::kMalformed, "the node that was connected to sent Relinked");
  if (closing_ || message.links != number_ || connected_ || told_ || !links_) return;
  try {
    engine_.confirm_peer(*links_, message.fabric_confirm);
    connected(*links_);
  } catch (const RailError& error) {
    tell_rail_failed(Status(error.code(), error.what()), {error.rail()}, {});
  } catch (const Error& error) {
    // The peer has given these links up already, and will say why.
    if (error.code() != ErrorCode::kPeerLost) throw;
  }
}

void LinkFailover::take_links_closed(const LinksClosedMessage& message) {
  if (message.links >= number_) {
    throw Error(ErrorCode::kMalformed,
                fmt::format("it says that links {} are closed, with links {} in use", message.links,
                            number_));
  }
  // Links that this node could not open are closed by the peer all the same.
  const auto entry = both_.find(message.links);
  if (entry == both_.end()) return;
  engine_.confirm_remote_closed(entry->second);
  both_.erase(entry);
}

void LinkFailover::connected(PeerId links) {
  auto next = std::make_shared<AttachedPeer>(*peer_);
  next->links = links;
  next->links_number = number_;
  import_regions(engine_, *next);
  peer_ = std::move(next);
  connected_ = true;
  finish_if_done();
}

void LinkFailover::finish_if_done() {
  if (!replacing_ || !connected_ || !old_.empty()) return;
  replacing_ = false;
  owner_.links_replaced();
  schedule_retry();
}

void LinkFailover::tell_rail_failed(const Status& reason, std::vector<RailId> own,
                                    std::vector<RailId> peers) {
  if (std::exchange(told_, true)) return;
  owner_.link_message(RailFailedMessage{number_, std::move(own), std::move(peers), reason.text()});
}

void LinkFailover::schedule_retry() {
  if (!initiator_) return;
  const auto own = own_rails_.due_ns();
  const auto peers = peer_rails_.due_ns();
  if (!own && !peers) return;
  const std::int64_t due = std::min(own.value_or(INT64_MAX), peers.value_or(INT64_MAX));
  const auto wait_ms = std::max<std::int64_t>((due - now_ns()) / kNsPerMs + 1, rail_retry_ms_ / 2);
  retry_ = loop_.after(static_cast<std::uint32_t>(wait_ms), [this] { retry(); });
}

void LinkFailover::retry() {
  if (closing_ || replacing_) return;
  if (owner_.links_in_use() && ++put_off_ <= kMaxPutOff) return schedule_retry();
  const std::int64_t now = now_ns();
  own_rails_.bring_back(now);
  peer_rails_.bring_back(now);
  replace(Status(ErrorCode::kFabric, "a rail that failed is tried again"));
}

void LinkFailover::close(std::function<void()> closed) {
  closing_ = true;
  retry_.reset();
  all_closed_ = std::move(closed);
  close_links();
  if (old_.empty()) std::exchange(all_closed_, {})();
}

void LinkFailover::confirm_remote_closed() {
  for (const auto& [number, links] : both_) engine_.confirm_remote_closed(links);
  both_.clear();
}

}  // namespace kvrail

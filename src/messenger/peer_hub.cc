#include "messenger/peer_hub.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kRetryMs = 50;
constexpr std::uint32_t kTendMs = 50;

Status status_of(const std::exception& exception) {
  const auto* const error = dynamic_cast<const Error*>(&exception);
  return {error != nullptr ? error->code() : ErrorCode::kLimit, exception.what()};
}

}  // namespace

PeerHub::PeerHub(ControlLoop& loop, TransferEngine& engine, const Logger& log,
                 const PeerSession::Settings& settings, std::uint32_t max_strangers)
    : loop_(loop), engine_(engine), log_(log), settings_(settings), max_strangers_(max_strangers) {}

void PeerHub::start(const NodeIdentity& self, PeerListener& listener) {
  self_ = &self;
  listener_ = &listener;
  for (auto& stream : std::exchange(early_, {})) accept(std::move(stream));
}

void PeerHub::accept(std::shared_ptr<ControlStream> stream) {
  if (closing_) return;
  make_room();
  if (self_ == nullptr) {
    early_.push_back(std::move(stream));
    return;
  }
  strangers_.push_back(&open(stream, Handshake::Side::kAcceptor));
}

// A peer that means well is through in a few round trips. So the oldest is the one to go: were the
// new ones to wait instead, silent connections would lock everybody out for handshake_timeout_ms.
void PeerHub::make_room() {
  if (std::max(strangers_.size(), early_.size()) < max_strangers_) return;
  const Status reason(ErrorCode::kLimit,
                      fmt::format("it had not proved itself when {} others had come after it "
                                  "(max_handshakes)",
                                  max_strangers_));
  if (strangers_.size() >= max_strangers_) {
    PeerSession* const oldest = strangers_.front();
    oldest->leave(reason, StrangerKind::kMadeRoom);
  }
  if (early_.size() >= max_strangers_) {
    refuse_stranger(StrangerKind::kMadeRoom, early_.front()->remote_address(), reason.text());
    early_.erase(early_.begin());
  }
}

void PeerHub::dropped(ControlLoop::Dropped why, const std::string& remote_address) {
  if (why == ControlLoop::Dropped::kHungUp) {
    return refuse_stranger(StrangerKind::kHungUp, remote_address,
                           "it closed the stream while it waited to be accepted");
  }
  refuse_stranger(StrangerKind::kTooMany, remote_address,
                  "too many wait to be accepted (max_connections_per_second), most of them from "
                  "its address");
}

void PeerHub::refuse_stranger(StrangerKind kind, std::string_view who, std::string_view why) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  // Anybody can come as often as they like: their lines must not fill the disk or hide others.
  if (!refused_strangers_.count(kind)) return;
  log_.warning("no introduction with {}: {} (others of this kind, \"{}\", are only counted)", who,
               why, to_string(kind));
}

PeerSession& PeerHub::open(const std::shared_ptr<ControlStream>& stream, Handshake::Side side) {
  SessionOwner& owner = *this;
  const auto session = std::make_shared<PeerSession>(settings_, loop_, engine_, owner, stream);
  try {
    session->start(*self_, side);
    sessions_.emplace(session.get(), session);
  } catch (...) {
    stream->close();
    throw;
  }
  return *session;
}

PeerId PeerHub::connect(const std::string& host_port, std::uint32_t timeout_ms) {
  const auto connecting = std::make_shared<Connecting>();
  connecting->host_port = host_port;
  connecting->timeout_ms = timeout_ms;
  connecting->deadline_ns = now_ns() + std::int64_t{timeout_ms} * kNsPerMs;
  auto result = connecting->done.get_future();
  loop_.post([this, connecting] {
    connecting_.push_back(connecting);
    attempt(connecting);
  });
  return result.get();
}

void PeerHub::attempt(const std::shared_ptr<Connecting>& connecting) {
  connecting->retry.reset();
  if (closing_) return fail_connect(connecting, *closing_);
  const std::int64_t left_ms = (connecting->deadline_ns - now_ns()) / kNsPerMs;
  const auto timeout_ms = static_cast<std::uint32_t>(std::max<std::int64_t>(left_ms, 1));
  loop_.connect(
      connecting->host_port, timeout_ms,
      [this, connecting](const Status& status, const std::shared_ptr<ControlStream>& stream) {
        if (!status.ok()) return retry(connecting, status);
        if (closing_) return fail_connect(connecting, *closing_);
        try {
          connecting->session = &open(stream, Handshake::Side::kInitiator);
        } catch (const std::exception& error) {
          fail_connect(connecting, status_of(error));
        }
      });
}

void PeerHub::retry(const std::shared_ptr<Connecting>& connecting, const Status& status) {
  if (closing_) return fail_connect(connecting, *closing_);
  if (status.code() == ErrorCode::kInvalidArgument || status.code() == ErrorCode::kLimit) {
    return fail_connect(connecting, status);
  }
  if (now_ns() + kRetryMs * kNsPerMs > connecting->deadline_ns) {
    return fail_connect(
        connecting, Status(status.code(), fmt::format("cannot connect to {} within {} ms: {}",
                                                      connecting->host_port, connecting->timeout_ms,
                                                      status.text())));
  }
  connecting->retry = loop_.after(kRetryMs, [this, connecting] { attempt(connecting); });
}

void PeerHub::fail_connect(const std::shared_ptr<Connecting>& connecting, const Status& status) {
  connecting->retry.reset();
  if (std::erase(connecting_, connecting) == 0) return;
  connecting->done.set_exception(std::make_exception_ptr(Error(status.code(), status.text())));
}

std::shared_ptr<PeerHub::Connecting> PeerHub::connecting_of(const PeerSession& session) const {
  const auto found =
      std::find_if(connecting_.begin(), connecting_.end(),
                   [&session](const auto& other) { return other->session == &session; });
  return found == connecting_.end() ? nullptr : *found;
}

void PeerHub::session_attached(PeerSession& session) {
  const auto& peer = session.peer();
  by_peer_.emplace(peer->id, &session);
  attached_.store(by_peer_.size(), std::memory_order_relaxed);
  log_.info("attached {} as peer {}", peer->label, peer->id.value());
  listener_->peer_attached(peer);
  if (const auto connecting = connecting_of(session)) {
    std::erase(connecting_, connecting);
    connecting->done.set_value(peer->id);
  }
}

void PeerHub::session_refused(PeerSession& session, const Status& reason) {
  std::erase(strangers_, &session);
  if (!closing_ && session.is_stranger()) {
    refuse_stranger(session.stranger_kind(), session.label(), reason.text());
  } else if (!closing_) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    log_.warning("no introduction with {}: {}", session.label(), reason.text());
  }
  if (const auto connecting = connecting_of(session)) fail_connect(connecting, reason);
}

void PeerHub::session_message(PeerSession& session, Message message) {
  const std::string_view name = name_of(message);
  if (listener_->peer_message(session.peer(), std::move(message))) return;
  ignored_.fetch_add(1, std::memory_order_relaxed);
  log_.debug("a {} of {} is late, a duplicate, or of nothing known here", name, session.label());
}

void PeerHub::session_links_lost(PeerSession& session, const Status& reason) {
  log_.warning("the links to {} are replaced: {}", session.label(), reason.text());
  listener_->peer_links_lost(*session.peer());
}

void PeerHub::session_links_fenced(PeerSession& session) {
  listener_->peer_links_fenced(*session.peer());
}

void PeerHub::session_links_replaced(PeerSession& session) {
  links_replaced_.fetch_add(1, std::memory_order_relaxed);
  log_.info("the links to {} are replaced: {}", session.label(),
            engine_.describe_peer(session.peer()->links));
  listener_->peer_links_replaced(session.peer());
}

void PeerHub::session_closes_links() {
  if (tending_) return;
  tending_ = loop_.after(kTendMs, [this] {
    tending_.reset();
    if (engine_.tend_closed_peers()) session_closes_links();
  });
}

void PeerHub::session_losing(PeerSession& session, const Status& reason) {
  const auto& peer = session.peer();
  by_peer_.erase(peer->id);
  attached_.store(by_peer_.size(), std::memory_order_relaxed);
  log_.info("parting from {}: {}", peer->label, reason.text());
  listener_->peer_losing(*peer, reason);
  // It is lost before it was attached in full if there was no memory for that.
  if (const auto connecting = connecting_of(session)) fail_connect(connecting, reason);
}

void PeerHub::session_fenced(PeerSession& session, const Status& reason) {
  listener_->peer_fenced(*session.peer(), reason);
}

bool PeerHub::session_in_use(const PeerSession& session) {
  return listener_->peer_in_use(*session.peer());
}

bool PeerHub::session_has_requests(const PeerSession& session) {
  return listener_->peer_has_requests(*session.peer());
}

void PeerHub::session_over(PeerSession& session) {
  sessions_.erase(&session);
  check_idle();
}

PeerSession* PeerHub::find(PeerId peer) const {
  const auto entry = by_peer_.find(peer);
  return entry == by_peer_.end() ? nullptr : entry->second;
}

void PeerHub::send(PeerId peer, const Message& message) {
  if (PeerSession* session = find(peer)) session->send(message);
}

void PeerHub::give_up(PeerId peer, const Status& reason) {
  if (PeerSession* session = find(peer)) session->give_up(reason);
}

void PeerHub::shut_down(const Status& reason, std::promise<void> idle) {
  closing_ = reason;
  idle_ = std::move(idle);
  early_.clear();
  for (const auto& connecting : std::vector(connecting_)) {
    if (connecting->session == nullptr) fail_connect(connecting, reason);
  }
  std::vector<std::shared_ptr<PeerSession>> open;
  for (const auto& [key, session] : sessions_) open.push_back(session);
  for (const auto& session : open) session->leave(reason);
  check_idle();
}

void PeerHub::abandon() {
  std::vector<std::shared_ptr<PeerSession>> open;
  for (const auto& [key, session] : sessions_) open.push_back(session);
  for (const auto& session : open) session->abandon();
}

void PeerHub::check_idle() {
  if (!idle_ || !sessions_.empty()) return;
  tending_.reset();
  idle_->set_value();
  idle_.reset();
}

}  // namespace kvrail

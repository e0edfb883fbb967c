#include "messenger/peer_session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"

namespace kvrail {
namespace {

// For last words; a peer that is alive takes them at once.
constexpr std::uint32_t kLastWordsMs = 500;
// Of a peer that has not proved itself: hellos, proofs, and a Goodbye that quotes two names.
constexpr std::uint32_t kMaxStrangerBytes = 8u << 10;

}  // namespace

PeerSession::PeerSession(const Settings& settings, ControlLoop& loop, TransferEngine& engine,
                         SessionOwner& owner, std::shared_ptr<ControlStream> stream)
    : settings_(settings),
      loop_(loop),
      engine_(engine),
      owner_(owner),
      stream_(std::move(stream)) {}

void PeerSession::start(const NodeIdentity& self, Handshake::Side side) {
  const auto weak = weak_from_this();
  side_ = side;
  has_key_ = self.key.has_value();
  handshake_.emplace(self, engine_, side, stream_->remote_address(), link_options(0));
  timer_ = loop_.after(settings_.handshake_timeout_ms, [weak] {
    if (const auto session = weak.lock()) {
      session->leave(Status(ErrorCode::kDeadline,
                            fmt::format("{} did not complete the handshake within {} ms",
                                        session->label(), session->settings_.handshake_timeout_ms)),
                     StrangerKind::kTooSlow);
    }
  });
  stream_->set_max_message_bytes(kMaxStrangerBytes);
  stream_->start({[weak](Message message) {
                    if (const auto session = weak.lock()) session->on_message(std::move(message));
                  },
                  [weak](const Status& reason) {
                    if (const auto session = weak.lock()) session->on_stream_lost(reason);
                  }});
  if (side == Handshake::Side::kInitiator) stream_->send(handshake_->hello());
}

PeerOptions PeerSession::link_options(std::uint32_t number) {
  const auto weak = weak_from_this();
  PeerOptions options;
  if (attached_) options.name = label();
  options.ring = [stream = std::weak_ptr(stream_)] {
    if (const auto open = stream.lock()) open->send_wake();
  };
  options.on_error = [weak, number, &loop = loop_](const Status& status) {
    loop.post([weak, number, status] {
      const auto session = weak.lock();
      if (!session) return;
      if (!session->attached_) return session->leave(status);
      // Those that are given up fail in many ways.
      if (number == session->peer()->links_number) session->give_up(status);
    });
  };
  options.on_rail_failed = [weak, number, &loop = loop_](const RailFailure& failure) {
    loop.post([weak, number, failure] {
      if (const auto session = weak.lock()) session->on_rail_failed(number, failure);
    });
  };
  return options;
}

void PeerSession::on_rail_failed(std::uint32_t number, const RailFailure& failure) {
  if (!attached_) return leave(failure.status);
  if (state_ != State::kAttached) return;
  if (!peer()->fails_over) return give_up(failure.status);
  failover_->on_rail_failed(number, failure);
}

void PeerSession::links_lost(const Status& reason) {
  owner_.session_links_lost(*this, reason);
  owner_.session_closes_links();
}

bool PeerSession::take_link_message(const Message& message) {
  try {
    return failover_->take(message);
  } catch (const Error& error) {
    give_up(Status(error.code(), error.what()));
    return true;
  }
}

void PeerSession::on_message(Message message) {
  switch (state_) {
    case State::kIntroducing:
      return introduce(message);
    case State::kAttached:
      if (keep_alive(message) || take_link_message(message)) return;
      owner_.session_message(*this, std::move(message));
      return;
    case State::kFencing:
    case State::kLingering:
      if (std::holds_alternative<GoodbyeMessage>(message)) {
        goodbye_taken_ = true;
        on_remote_closed();
      }
      return;
    case State::kOver:
      return;
  }
}

void PeerSession::introduce(const Message& message) {
  goodbye_taken_ = std::holds_alternative<GoodbyeMessage>(message);
  remote_closed_ = goodbye_taken_ && handshake_->opened();
  try {
    answer(handshake_->take(message));
    if (handshake_->peer()) attach();
  } catch (const Error& error) {
    // An acceptor that has said HelloAck awaits nothing in clear any more.
    const auto keys = handshake_->take_keys();
    if (keys && side_ == Handshake::Side::kInitiator) stream_->encrypt(*keys);
    if (handshake_->last_words()) stream_->send(*handshake_->last_words());
    leave(Status(error.code(), error.what()), kind_of(error));
  }
}

void PeerSession::answer(const std::vector<Message>& answers) {
  // HelloAck is the last message in clear, in either direction.
  const auto keys = handshake_->take_keys();
  if (keys && side_ == Handshake::Side::kInitiator) stream_->encrypt(*keys);
  for (const Message& message : answers) stream_->send(message);
  if (keys && side_ == Handshake::Side::kAcceptor) stream_->encrypt(*keys);
  if (!handshake_->is_accepted()) return;
  stream_->set_max_message_bytes(settings_.max_message_bytes);
  // Without a key anybody's hello is accepted, and proves nothing.
  if (has_key_) be_accepted();
}

void PeerSession::be_accepted() {
  if (std::exchange(accepted_, true)) return;
  owner_.session_accepted(*this);
}

void PeerSession::attach() {
  state_ = State::kAttached;
  LinkOwner& owner = *this;
  failover_ = std::make_unique<LinkFailover>(engine_, loop_, owner, side_, handshake_->peer(),
                                             settings_.rail_retry_ms);
  attached_ = true;
  be_accepted();
  const std::uint32_t interval_ms =
      std::min(settings_.heartbeat_ms, std::max(peer()->lost_after_ms / 3, 1u));
  tick_ms_ = std::max(interval_ms / 2, 1u);
  lease_until_ns_ = now_ns() + std::int64_t{peer()->lost_after_ms} * kNsPerMs;
  schedule_tick();
  owner_.session_attached(*this);
}

// Takes the messages that are about the session itself.
bool PeerSession::keep_alive(const Message& message) {
  const std::int64_t now = now_ns();
  if (const auto* heartbeat = std::get_if<HeartbeatMessage>(&message)) {
    lease_until_ns_ = now + std::int64_t{heartbeat->remaining_ms} * kNsPerMs;
    return true;
  }
  lease_until_ns_ = std::max(lease_until_ns_, now + std::int64_t{peer()->lost_after_ms} * kNsPerMs);
  if (std::holds_alternative<WakeMessage>(message)) {
    engine_.wake_peer(peer()->links);
    return true;
  }
  if (const auto* goodbye = std::get_if<GoodbyeMessage>(&message)) {
    goodbye_taken_ = true;
    remote_closed_ = true;
    lose(fmt::format("it said goodbye: {}", goodbye->reason), goodbye->code);
    return true;
  }
  return false;
}

void PeerSession::on_stream_lost(const Status& reason) {
  stream_open_ = false;
  // A node closes its links before its stream. But anybody between the two can end a stream: where
  // they may be, only a Goodbye, which is sealed, proves it. What does not decode never does, nor a
  // peer that takes nothing: it may be stopped.
  const bool is_end = reason.code() == ErrorCode::kPeerLost;
  const bool remote_closed = is_end && !has_key_;
  const FrameFault fault = stream_->frame_fault();
  switch (state_) {
    case State::kIntroducing:
      remote_closed_ = remote_closed;
      return leave(reason,
                   is_end || fault != FrameFault::kNone ? kind_of(fault) : StrangerKind::kOther);
    case State::kAttached:
      remote_closed_ = remote_closed;
      return lose(reason.text(), reason.code());
    case State::kFencing:
      if (remote_closed) on_remote_closed();
      return;
    case State::kLingering:
      if (remote_closed) return on_remote_closed();
      return end();
    case State::kOver:
      return;
  }
}

void PeerSession::send(const Message& message) {
  if (state_ == State::kAttached && stream_open_) stream_->send(message);
}

void PeerSession::lose(const std::string& why, ErrorCode code) {
  if (state_ != State::kAttached) return;
  reason_ = Status(ErrorCode::kPeerLost, fmt::format("{} is lost: {}", label(), why));
  goodbye_ = {code, why};
  fence();
}

void PeerSession::leave(const Status& reason, StrangerKind kind) {
  if (state_ != State::kIntroducing && state_ != State::kAttached) return;
  stranger_kind_ = kind;
  reason_ = reason;
  goodbye_ = {reason.code(), reason.text()};
  fence();
}

void PeerSession::fence() {
  const auto keep = shared_from_this();
  state_ = State::kFencing;
  timer_.reset();
  if (attached_) {
    owner_.session_losing(*this, reason_);
  } else {
    owner_.session_refused(*this, reason_);
  }
  const auto opened = handshake_->opened();
  const auto fenced = [weak = weak_from_this(), &loop = loop_] {
    loop.post([weak] {
      if (const auto session = weak.lock()) session->on_fenced();
    });
  };
  if (!opened) return fenced();
  if (remote_closed_) confirm_remote_closed();
  owner_.session_closes_links();
  failover_ ? failover_->close(fenced) : engine_.close_peer(*opened, fenced);
}

void PeerSession::confirm_remote_closed() {
  if (failover_) return failover_->confirm_remote_closed();
  if (const auto opened = handshake_->opened()) engine_.confirm_remote_closed(*opened);
}

void PeerSession::on_fenced() {
  const auto keep = shared_from_this();
  if (attached_) owner_.session_fenced(*this, reason_);
  // Also in answer to one: it says that these links are closed, too.
  if (stream_open_ && (!goodbye_taken_ || handshake_->opened())) stream_->send(goodbye_);
  if (!stream_open_ || remote_closed_ || abandoned_ || !handshake_->opened()) return end();
  state_ = State::kLingering;
  linger();
}

void PeerSession::linger() {
  timer_ = loop_.after(settings_.lost_after_ms, [weak = weak_from_this()] {
    const auto session = weak.lock();
    if (!session) return;
    const bool in_use = session->attached_ && session->owner_.session_in_use(*session);
    in_use ? session->linger() : session->end();
  });
}

void PeerSession::on_remote_closed() {
  remote_closed_ = true;
  confirm_remote_closed();
  if (state_ == State::kLingering) end();
}

void PeerSession::abandon() {
  abandoned_ = true;
  timer_.reset();
  if (state_ == State::kLingering) end();
}

void PeerSession::end() {
  const auto keep = shared_from_this();
  state_ = State::kOver;
  timer_.reset();
  if (stream_open_) stream_->close(kLastWordsMs);
  stream_open_ = false;
  owner_.session_over(*this);
}

void PeerSession::schedule_tick() {
  tick_due_ns_ = now_ns() + std::int64_t{tick_ms_} * kNsPerMs;
  timer_ = loop_.after(tick_ms_, [weak = weak_from_this()] {
    if (const auto session = weak.lock()) session->tick();
  });
}

std::int64_t PeerSession::silent_ms(std::int64_t now) const {
  return (now - stream_->last_received_ns()) / kNsPerMs;
}

void PeerSession::tick() {
  const std::int64_t now = now_ns();
  const std::int64_t limit_ms = settings_.lost_after_ms;
  // While this node itself did not run, messages may have come that are still to be read.
  const bool overslept = now - tick_due_ns_ > limit_ms * kNsPerMs / 2;
  if (!overslept) {
    if (silent_ms(now) > limit_ms) {
      return lose(fmt::format("nothing came from it for {} ms", limit_ms), ErrorCode::kDeadline);
    }
    if (now > lease_until_ns_) {
      return lose(fmt::format("the time for which it keeps this node has run out; the last word "
                              "from it came {} ms ago",
                              silent_ms(now)),
                  ErrorCode::kDeadline);
    }
  }
  if (now - stream_->last_sent_ns() >= std::int64_t{tick_ms_} * 2 * kNsPerMs) {
    const auto remaining = std::max<std::int64_t>(limit_ms - silent_ms(now), 0);
    stream_->send(HeartbeatMessage{static_cast<std::uint32_t>(remaining)});
  }
  schedule_tick();
}

}  // namespace kvrail

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "kvrail/transfer_engine.h"
#include "messenger/attached_peer.h"
#include "messenger/handshake.h"
#include "messenger/link_failover.h"
#include "messenger/strangers.h"
#include "wire/control_loop.h"
#include "wire/control_stream.h"
#include "wire/message.h"

namespace kvrail {

class PeerSession;

// What a session tells its owner. Threads: the messenger's.
class SessionOwner {
 public:
  virtual ~SessionOwner() = default;
  virtual void session_attached(PeerSession& session) = 0;
  // The peer has proved itself, and goes on to attach; without a key: it is attached.
  virtual void session_accepted(PeerSession& session) = 0;
  // Instead of session_attached: the introduction failed.
  virtual void session_refused(PeerSession& session, const Status& reason) = 0;
  // Of an attached peer, other than those about the session itself.
  virtual void session_message(PeerSession& session, Message message) = 0;
  // The attached peer's links are given up, and to be replaced; are closed; and are replaced by
  // others, which peer() names.
  virtual void session_links_lost(PeerSession& session, const Status& reason) = 0;
  virtual void session_links_fenced(PeerSession& session) = 0;
  virtual void session_links_replaced(PeerSession& session) = 0;
  // Some links begin to be closed.
  virtual void session_closes_links() = 0;
  // The attached peer is lost, and its links are about to be closed.
  virtual void session_losing(PeerSession& session, const Status& reason) = 0;
  // Its links are closed: nothing of it lands here any more.
  virtual void session_fenced(PeerSession& session, const Status& reason) = 0;
  // Whether the peer may still read source pages of ours.
  virtual bool session_in_use(const PeerSession& session) = 0;
  // Whether a request is open, on either side of this node.
  virtual bool session_has_requests(const PeerSession& session) = 0;
  // The last call; the session may be destroyed inside.
  virtual void session_over(PeerSession& session) = 0;
};

// One control stream with one peer: introduction, liveness, loss and the fence.
//
//   introducing --all said--> attached --end of stream, silence, Goodbye, an error--> fencing
//   introducing --refused, or too slow--> fencing
//   fencing --links closed--> lingering, or over if the peer's links are closed as well
//   lingering --the peer's Goodbye or end of stream--> over
//   lingering --silence, and the peer cannot read our source any more--> over
//
// A node says Goodbye, and closes its stream, only after its links for the peer: so either tells
// the peer that nothing of ours reads or writes there any more. With a key only Goodbye does, since
// anybody can end a stream; where the peer may read source pages, they are its own until it says so
// or its process has ended, which the engine sees. Silence tells nothing of the kind.
//
// Threads: the messenger's. What the engine's workers tell is posted to it.
class PeerSession : public std::enable_shared_from_this<PeerSession>, private LinkOwner {
 public:
  struct Settings {
    std::uint32_t heartbeat_ms = 500;
    std::uint32_t lost_after_ms = 3000;
    std::uint32_t handshake_timeout_ms = 5000;
    std::uint32_t rail_retry_ms = 1000;
    std::uint32_t max_message_bytes = 16u << 20;
  };

  PeerSession(const Settings& settings, ControlLoop& loop, TransferEngine& engine,
              SessionOwner& owner, std::shared_ptr<ControlStream> stream);

  void start(const NodeIdentity& self, Handshake::Side side);

  // Null before session_attached.
  const std::shared_ptr<const AttachedPeer>& peer() const {
    return failover_ ? failover_->peer() : handshake_->peer();
  }
  const std::string& label() const { return handshake_->label(); }
  bool is_attached() const { return state_ == State::kAttached; }
  // It came here, and has not proved itself; without a key: is not attached.
  bool is_stranger() const { return side_ == Handshake::Side::kAcceptor && !accepted_; }
  // What it was, once it is refused.
  StrangerKind stranger_kind() const { return stranger_kind_; }

  void send(const Message& message);
  // The attached peer cannot be trusted any more: it is lost, as by an error of its links.
  void give_up(const Status& reason) { lose(reason.text(), reason.code()); }
  // Fences the peer and parts from it, for a reason of this node's; the first reason stands. `kind`
  // is of a stranger.
  void leave(const Status& reason, StrangerKind kind = StrangerKind::kOther);
  // After leave(): the peer is not waited for. The session is over once its links are closed.
  void abandon();

 private:
  enum class State { kIntroducing, kAttached, kFencing, kLingering, kOver };

  void link_message(const Message& message) override { send(message); }
  PeerOptions link_options(std::uint32_t number) override;
  void links_lost(const Status& reason) override;
  void links_fenced() override { owner_.session_links_fenced(*this); }
  void links_replaced() override { owner_.session_links_replaced(*this); }
  void links_beyond_repair(const Status& reason) override { give_up(reason); }
  bool links_in_use() override { return owner_.session_has_requests(*this); }

  void on_message(Message message);
  bool take_link_message(const Message& message);
  void on_rail_failed(std::uint32_t number, const RailFailure& failure);
  void introduce(const Message& message);
  void answer(const std::vector<Message>& answers);
  void be_accepted();
  void attach();
  bool keep_alive(const Message& message);
  void on_stream_lost(const Status& reason);

  void lose(const std::string& why, ErrorCode code);
  void fence();
  void on_fenced();
  void on_remote_closed();
  void confirm_remote_closed();
  void linger();
  void end();

  void schedule_tick();
  void tick();
  std::int64_t silent_ms(std::int64_t now_ns) const;

  const Settings settings_;
  ControlLoop& loop_;
  TransferEngine& engine_;
  SessionOwner& owner_;
  const std::shared_ptr<ControlStream> stream_;
  std::optional<Handshake> handshake_;
  std::unique_ptr<LinkFailover> failover_;  // once attached
  Handshake::Side side_ = Handshake::Side::kInitiator;
  bool has_key_ = false;
  bool accepted_ = false;  // the owner was told

  State state_ = State::kIntroducing;
  bool attached_ = false;       // has been
  bool stream_open_ = true;     // messages can be sent
  bool remote_closed_ = false;  // the peer's links for us are closed
  bool goodbye_taken_ = false;
  bool abandoned_ = false;
  StrangerKind stranger_kind_ = StrangerKind::kOther;
  Status reason_;           // what is told here
  GoodbyeMessage goodbye_;  // and what the peer is told
  std::unique_ptr<ControlLoop::Timer> timer_;
  std::uint32_t tick_ms_ = 0;
  std::int64_t tick_due_ns_ = 0;
  std::int64_t lease_until_ns_ = 0;  // the peer keeps us until then
};

}  // namespace kvrail

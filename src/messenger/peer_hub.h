#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/logger.h"
#include "kvrail/transfer_engine.h"
#include "messenger/peer_messages.h"
#include "messenger/peer_session.h"
#include "messenger/strangers.h"
#include "wire/control_loop.h"

namespace kvrail {

// What the hub tells of attached peers. Threads: the messenger's.
class PeerListener {
 public:
  virtual ~PeerListener() = default;
  virtual void peer_attached(const std::shared_ptr<const AttachedPeer>& peer) = 0;
  // False: late, a duplicate, or unknown.
  virtual bool peer_message(const std::shared_ptr<const AttachedPeer>& peer, Message message) = 0;
  virtual void peer_losing(const AttachedPeer& peer, const Status& reason) = 0;
  virtual void peer_fenced(const AttachedPeer& peer, const Status& reason) = 0;
  virtual bool peer_in_use(const AttachedPeer& peer) = 0;
  virtual bool peer_has_requests(const AttachedPeer& peer) = 0;
  // The peer's links are given up; closed; and replaced by others.
  virtual void peer_links_lost(const AttachedPeer& peer) = 0;
  virtual void peer_links_fenced(const AttachedPeer& peer) = 0;
  virtual void peer_links_replaced(const std::shared_ptr<const AttachedPeer>& peer) = 0;
};

// The peers of a messenger: those that connect, those that are connected to, and those that part.
//
// Threads: connect() and the counts by any; everything else by the messenger's.
class PeerHub final : public PeerMessages, private SessionOwner {
 public:
  // At most `max_strangers` (at least 1) that have not proved themselves are kept at once.
  PeerHub(ControlLoop& loop, TransferEngine& engine, const Logger& log,
          const PeerSession::Settings& settings, std::uint32_t max_strangers);

  // Streams that were accepted before wait until then. Both must outlive the hub.
  void start(const NodeIdentity& self, PeerListener& listener);
  void accept(std::shared_ptr<ControlStream> stream);
  // A connection was closed before it was accepted.
  void dropped(ControlLoop::Dropped why, const std::string& remote_address);

  // Blocks; not on the messenger's thread. Throws Error.
  PeerId connect(const std::string& host_port, std::uint32_t timeout_ms);

  void send(PeerId peer, const Message& message) override;
  void give_up(PeerId peer, const Status& reason) override;

  // Parts from everybody, in order; new ones are refused. `idle` is set once nobody is left.
  void shut_down(const Status& reason, std::promise<void> idle);
  // Those that are left are not waited for: they are gone once their links are closed.
  void abandon();

  std::uint64_t attached_count() const { return attached_.load(std::memory_order_relaxed); }
  std::uint64_t links_replaced_count() const {
    return links_replaced_.load(std::memory_order_relaxed);
  }
  std::uint64_t refused_count() const { return refused_.load(std::memory_order_relaxed); }
  StrangerStats strangers() const { return refused_strangers_.stats(); }
  std::uint64_t ignored_count() const { return ignored_.load(std::memory_order_relaxed); }

 private:
  // A call of connect() that waits.
  struct Connecting {
    std::string host_port;
    std::int64_t deadline_ns = 0;
    std::uint32_t timeout_ms = 0;
    std::promise<PeerId> done;
    std::unique_ptr<ControlLoop::Timer> retry;
    PeerSession* session = nullptr;  // once there is a stream
  };

  void session_attached(PeerSession& session) override;
  void session_accepted(PeerSession& session) override { std::erase(strangers_, &session); }
  void session_refused(PeerSession& session, const Status& reason) override;
  void session_message(PeerSession& session, Message message) override;
  void session_links_lost(PeerSession& session, const Status& reason) override;
  void session_links_fenced(PeerSession& session) override;
  void session_links_replaced(PeerSession& session) override;
  void session_closes_links() override;
  void session_losing(PeerSession& session, const Status& reason) override;
  void session_fenced(PeerSession& session, const Status& reason) override;
  bool session_in_use(const PeerSession& session) override;
  bool session_has_requests(const PeerSession& session) override;
  void session_over(PeerSession& session) override;

  void attempt(const std::shared_ptr<Connecting>& connecting);
  void retry(const std::shared_ptr<Connecting>& connecting, const Status& status);
  void fail_connect(const std::shared_ptr<Connecting>& connecting, const Status& status);
  std::shared_ptr<Connecting> connecting_of(const PeerSession& session) const;
  // Opens a session and starts it. What that throws leaves nothing behind.
  PeerSession& open(const std::shared_ptr<ControlStream>& stream, Handshake::Side side);
  PeerSession* find(PeerId peer) const;
  void make_room();
  void refuse_stranger(StrangerKind kind, std::string_view who, std::string_view why);
  void check_idle();

  ControlLoop& loop_;
  TransferEngine& engine_;
  const Logger& log_;
  const PeerSession::Settings settings_;
  const std::uint32_t max_strangers_;

  // The messenger's thread only.
  const NodeIdentity* self_ = nullptr;
  PeerListener* listener_ = nullptr;
  std::vector<std::shared_ptr<ControlStream>> early_;  // accepted before start()
  std::vector<PeerSession*> strangers_;  // have not proved themselves; the oldest first
  std::vector<std::shared_ptr<Connecting>> connecting_;
  std::unordered_map<const PeerSession*, std::shared_ptr<PeerSession>> sessions_;  // not over
  std::unordered_map<PeerId, PeerSession*> by_peer_;                               // attached
  std::unique_ptr<ControlLoop::Timer> tending_;  // while links are being closed
  std::optional<Status> closing_;
  std::optional<std::promise<void>> idle_;

  Strangers refused_strangers_;
  std::atomic<std::uint64_t> attached_{0};
  std::atomic<std::uint64_t> links_replaced_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> ignored_{0};
};

}  // namespace kvrail

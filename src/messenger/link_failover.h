#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/rail_failure.h"
#include "kvrail/transfer_engine.h"
#include "messenger/attached_peer.h"
#include "messenger/handshake.h"
#include "messenger/rail_backoff.h"
#include "wire/control_loop.h"
#include "wire/message.h"

namespace kvrail {

// What the failover of a session's links tells the session. Threads: the messenger's.
class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  virtual void link_message(const Message& message) = 0;
  // For links with this number: their errors name it.
  virtual PeerOptions link_options(std::uint32_t number) = 0;
  // The links are given up and being closed; those of this node are closed: nothing lands over them
  // any more; and others have taken their place.
  virtual void links_lost(const Status& reason) = 0;
  virtual void links_fenced() = 0;
  virtual void links_replaced() = 0;
  // There is no way to replace them.
  virtual void links_beyond_repair(const Status& reason) = 0;
  // Whether a request is open with the peer.
  virtual bool links_in_use() = 0;
};

// Replaces the links with an attached peer, all of them at once, when a rail fails: without that
// rail, and with it again after a while (docs/protocol.md). The node that connected decides which
// rails take part; the other tells it what it sees.
//
//   initiator                                acceptor
//                                         <- RailFailed    if the acceptor saw it
//   Relink (offer)     ->
//                                         <- RelinkAck (answer)
//   Relinked (confirm) ->
//   LinksClosed        ->                 <- LinksClosed   each when its old links are closed
//
// Threads: the messenger's. It calls the engine, which blocks for milliseconds.
class LinkFailover {
 public:
  LinkFailover(TransferEngine& engine, ControlLoop& loop, LinkOwner& owner, Handshake::Side side,
               std::shared_ptr<const AttachedPeer> peer, std::uint32_t rail_retry_ms);

  const std::shared_ptr<const AttachedPeer>& peer() const { return peer_; }

  // Of the links with that number.
  void on_rail_failed(std::uint32_t number, const RailFailure& failure);
  // Takes the messages that are about links. Throws Error on those that make no sense.
  bool take(const Message& message);

  // Closes every link; `closed` is called, later, when all are.
  void close(std::function<void()> closed);
  // The peer has closed all of its links.
  void confirm_remote_closed();

 private:
  void take_rail_failed(const RailFailedMessage& message);
  void take_relink(const RelinkMessage& message);
  void take_relink_ack(const RelinkAckMessage& message);
  void take_relinked(const RelinkedMessage& message);
  void take_links_closed(const LinksClosedMessage& message);

  void fail_over(const Status& reason, const std::vector<RailId>& own,
                 const std::vector<RailId>& peers);
  void replace(const Status& reason);
  void give_up_links(const Status& reason);
  void close_links();
  void on_closed(std::uint32_t number);
  void connected(PeerId links);
  void finish_if_done();
  void tell_rail_failed(const Status& reason, std::vector<RailId> own, std::vector<RailId> peers);
  void schedule_retry();
  void retry();

  TransferEngine& engine_;
  ControlLoop& loop_;
  LinkOwner& owner_;
  const bool initiator_;
  const std::uint32_t rail_retry_ms_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  std::shared_ptr<const AttachedPeer> peer_;  // with the last links that were connected
  std::uint32_t number_ = 0;                  // of the links in use, or being set up
  std::optional<PeerId> links_;               // those, once they are open
  bool connected_ = true;
  bool replacing_ = false;
  bool told_ = false;  // the initiator, that these links failed
  bool closing_ = false;
  std::map<std::uint32_t, PeerId> old_;   // that are not closed here
  std::map<std::uint32_t, PeerId> both_;  // that the peer has not said to be closed
  std::function<void()> all_closed_;

  // The initiator's.
  RailBackoff own_rails_;
  RailBackoff peer_rails_;
  std::uint32_t put_off_ = 0;
  std::unique_ptr<ControlLoop::Timer> retry_;
};

}  // namespace kvrail

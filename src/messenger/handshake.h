#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/kv_layout.h"
#include "kvrail/transfer_engine.h"
#include "messenger/attached_peer.h"
#include "wire/message.h"

namespace kvrail {

// What this node tells its peers. Constant once the messenger has started.
struct NodeIdentity {
  std::string node_name;
  std::uint64_t incarnation = 0;
  KvLayout layout;
  std::vector<RegionEntry> regions;
  bool prefills = false;
  bool decodes = false;
  std::uint32_t lost_after_ms = 0;
};

// Introduces two nodes to each other, message by message (docs/protocol.md):
//
//   initiator                                acceptor
//   Hello              ->
//                                         <- HelloAck
//   Attach             ->
//                                         <- AttachAck
//   Attached           ->
//
// Threads: the messenger's. It calls the engine, which blocks for milliseconds.
class Handshake {
 public:
  enum class Side { kInitiator, kAcceptor };

  // `options` go to the engine when the links are opened; its name is completed here.
  Handshake(const NodeIdentity& self, TransferEngine& engine, Side side, std::string address,
            PeerOptions options);

  // The initiator's first message.
  Message hello() const;

  // Takes the peer's next message and gives the answer to it, if there is one. Throws Error when
  // the two cannot work together; the links opened so far are the caller's to close.
  std::optional<Message> take(const Message& message);

  // Null until all is said.
  const std::shared_ptr<const AttachedPeer>& peer() const { return peer_; }
  // The peer whose links are open.
  std::optional<PeerId> opened() const { return opened_; }
  // What to say before a Goodbye, so that a peer of another version knows ours.
  const std::optional<Message>& last_words() const { return last_words_; }
  const std::string& label() const { return label_; }

 private:
  enum class Awaits { kHello, kHelloAck, kAttach, kAttachAck, kAttached, kNothing };

  template <class Hello>
  void check_hello(const Hello& hello);
  template <class Attachment>
  std::shared_ptr<AttachedPeer> plan_with(const Attachment& attachment) const;
  void complete(PeerId links, AttachedPeer& peer) const;
  std::vector<RegionEntry> regions_for(bool peer_prefills) const;

  Message take_hello(const HelloMessage& hello);
  Message take_hello_ack(const HelloAckMessage& hello);
  Message take_attach(const AttachMessage& attach);
  Message take_attach_ack(const AttachAckMessage& attach);
  void take_attached(const AttachedMessage& attached);

  const NodeIdentity& self_;
  TransferEngine& engine_;
  const std::string address_;
  PeerOptions options_;
  Awaits awaits_;
  std::string node_name_;  // the peer's
  std::string label_;
  std::shared_ptr<const AttachedPeer> planned_;  // the acceptor's, until Attached
  std::shared_ptr<const AttachedPeer> peer_;
  std::optional<PeerId> opened_;
  std::optional<Message> last_words_;
};

}  // namespace kvrail

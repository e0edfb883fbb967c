#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/kv_layout.h"
#include "kvrail/pre_shared_key.h"
#include "kvrail/transfer_engine.h"
#include "messenger/attached_peer.h"
#include "wire/key_exchange.h"
#include "wire/message.h"
#include "wire/secret.h"

namespace kvrail {

// What this node tells its peers. Constant once the messenger has started.
struct NodeIdentity {
  std::string node_name;
  std::uint64_t incarnation = 0;
  std::optional<PreSharedKey> key;
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
//   Proof (with a key), Attach  ->
//                                         <- AttachAck
//   Attached           ->
//
// With a pre-shared key each side proves that it has it before it is told anything but names: the
// acceptor in HelloAck, the initiator in Proof. A side with a key refuses one without, and the
// reverse, whatever anybody between them changes in the hellos.
//
// Threads: the messenger's. It calls the engine, which blocks for milliseconds.
class Handshake {
 public:
  enum class Side { kInitiator, kAcceptor };

  // `options` go to the engine when the links are opened; its name is completed here.
  Handshake(const NodeIdentity& self, TransferEngine& engine, Side side, std::string address,
            PeerOptions options);

  // The initiator's first message.
  Message hello() const { return hello_; }

  // Takes the peer's next message and gives the answers to it. Throws Error when the two cannot
  // work together; the links opened so far are the caller's to close.
  std::vector<Message> take(const Message& message);

  // Once, after the take() that made them: both directions are encrypted from there on. An
  // acceptor's HelloAck is still said in clear; nothing of an initiator's is after its Hello.
  std::optional<StreamKeys> take_keys() { return std::exchange(keys_, {}); }
  // The peer has proved itself; without a key, its hello was accepted.
  bool is_accepted() const { return accepted_; }

  // Null until all is said.
  const std::shared_ptr<const AttachedPeer>& peer() const { return peer_; }
  // The peer whose links are open.
  std::optional<PeerId> opened() const { return opened_; }
  // What to say before a Goodbye, so that a peer of another version knows ours.
  const std::optional<Message>& last_words() const { return last_words_; }
  const std::string& label() const { return label_; }

 private:
  enum class Awaits { kHello, kHelloAck, kProof, kAttach, kAttachAck, kAttached, kNothing };

  AuthScheme scheme() const;
  template <class Hello>
  void introduce_self(Hello& hello) const;
  template <class Hello>
  void begin_exchange(Hello& hello);
  template <class Hello>
  void check_hello(const Hello& hello);
  void check_scheme(AuthScheme theirs) const;
  SessionSecrets agree(const HelloMessage& hello, const HelloAckMessage& ack) const;
  void check_proof(const std::vector<std::byte>& proof, const std::vector<std::byte>& due) const;
  template <class Attachment>
  std::shared_ptr<AttachedPeer> plan_with(const Attachment& attachment) const;
  void complete(PeerId links, AttachedPeer& peer) const;
  std::vector<RegionEntry> regions_for(bool peer_prefills) const;

  Message take_hello(const HelloMessage& hello);
  std::vector<Message> take_hello_ack(const HelloAckMessage& ack);
  void take_proof(const ProofMessage& proof);
  Message take_attach(const AttachMessage& attach);
  Message take_attach_ack(const AttachAckMessage& attach);
  void take_attached(const AttachedMessage& attached);

  const NodeIdentity& self_;
  TransferEngine& engine_;
  const std::string address_;
  PeerOptions options_;
  Awaits awaits_;
  std::optional<KeyExchange> exchange_;  // with a pre-shared key, until both hellos are there
  HelloMessage hello_;                   // the initiator's own
  std::vector<std::byte> due_proof_;     // the acceptor's, until Proof
  std::optional<StreamKeys> keys_;
  bool accepted_ = false;
  std::string node_name_;  // the peer's
  std::string label_;
  std::shared_ptr<const AttachedPeer> planned_;  // the acceptor's, until Attached
  std::shared_ptr<const AttachedPeer> peer_;
  std::optional<PeerId> opened_;
  std::optional<Message> last_words_;
};

}  // namespace kvrail

#include "messenger/handshake.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "messenger/region_import.h"
#include "messenger/send_gate.h"
#include "messenger/strangers.h"

namespace kvrail {
namespace {

[[noreturn]] void unexpected(const Message& message, std::string_view awaited) {
  throw Error(ErrorCode::kMalformed,
              fmt::format("a {} came where {} was due", name_of(message), awaited));
}

// A stranger's words end up in logs: no line of theirs may look like one of ours.
std::string printable(std::string text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

std::string_view roles(bool prefills, bool decodes) {
  if (prefills && decodes) return "prefills and decodes";
  if (prefills) return "prefills";
  return decodes ? "decodes" : "neither prefills nor decodes";
}

// One for each device group, since each has a submission queue of its own.
std::vector<std::shared_ptr<SendGate>> make_gates(const KvLayout& layout) {
  std::vector<std::shared_ptr<SendGate>> gates;
  for (const RankLayout& rank : layout.ranks) {
    while (gates.size() <= rank.device_group.value()) gates.push_back(std::make_shared<SendGate>());
  }
  return gates;
}

}  // namespace

Handshake::Handshake(const NodeIdentity& self, TransferEngine& engine, Side side,
                     std::string address, PeerOptions options)
    : self_(self),
      engine_(engine),
      address_(std::move(address)),
      options_(std::move(options)),
      awaits_(side == Side::kInitiator ? Awaits::kHelloAck : Awaits::kHello),
      label_(address_) {
  if (side != Side::kInitiator) return;
  introduce_self(hello_);
  if (self_.key) begin_exchange(hello_);
}

AuthScheme Handshake::scheme() const {
  return self_.key ? AuthScheme::kPreSharedKey : AuthScheme::kNone;
}

template <class Hello>
void Handshake::introduce_self(Hello& hello) const {
  hello.node_name = self_.node_name;
  hello.incarnation = self_.incarnation;
  hello.auth = scheme();
}

template <class Hello>
void Handshake::begin_exchange(Hello& hello) {
  exchange_.emplace(*self_.key);
  hello.nonce = exchange_->nonce();
  hello.public_key = exchange_->public_key();
}

std::vector<Message> Handshake::take(const Message& message) {
  if (const auto* goodbye = std::get_if<GoodbyeMessage>(&message)) {
    throw StrangerError(StrangerKind::kHungUp, goodbye->code,
                        fmt::format("{} refuses: {}", label_,
                                    accepted_ ? goodbye->reason : printable(goodbye->reason)));
  }
  switch (awaits_) {
    case Awaits::kHello:
      if (const auto* hello = std::get_if<HelloMessage>(&message)) return {take_hello(*hello)};
      unexpected(message, "Hello");
    case Awaits::kHelloAck:
      if (const auto* ack = std::get_if<HelloAckMessage>(&message)) return take_hello_ack(*ack);
      unexpected(message, "HelloAck");
    case Awaits::kProof:
      if (const auto* proof = std::get_if<ProofMessage>(&message)) {
        take_proof(*proof);
        return {};
      }
      unexpected(message, "Proof");
    case Awaits::kAttach:
      if (const auto* attach = std::get_if<AttachMessage>(&message)) return {take_attach(*attach)};
      unexpected(message, "Attach");
    case Awaits::kAttachAck:
      if (const auto* attach = std::get_if<AttachAckMessage>(&message)) {
        return {take_attach_ack(*attach)};
      }
      unexpected(message, "AttachAck");
    case Awaits::kAttached:
      if (const auto* attached = std::get_if<AttachedMessage>(&message)) {
        take_attached(*attached);
        return {};
      }
      unexpected(message, "Attached");
    case Awaits::kNothing:
      break;
  }
  unexpected(message, "nothing");
}

template <class Hello>
void Handshake::check_hello(const Hello& hello) {
  node_name_ = hello.node_name;
  label_ = fmt::format("{} ({})", node_name_, address_);
  if (hello.protocol_version != kProtocolVersion) {
    throw StrangerError(
        StrangerKind::kOtherVersion, ErrorCode::kVersionMismatch,
        fmt::format("{} speaks version {} of the protocol and {} speaks version {}: both "
                    "must run the same",
                    self_.node_name, kProtocolVersion, label_, hello.protocol_version));
  }
  check_scheme(hello.auth);
  if (hello.incarnation == self_.incarnation) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is this node itself: connect to another one", label_));
  }
}

void Handshake::check_scheme(AuthScheme theirs) const {
  if (theirs == scheme()) return;
  if (theirs == AuthScheme::kNone) {
    throw StrangerError(
        StrangerKind::kOtherScheme, ErrorCode::kUnauthenticated,
        fmt::format("{} has no pre-shared key and {} has one: give {} the same (key of "
                    "MessengerOptions)",
                    label_, self_.node_name, label_));
  }
  if (theirs == AuthScheme::kPreSharedKey) {
    throw StrangerError(
        StrangerKind::kOtherScheme, ErrorCode::kUnauthenticated,
        fmt::format("{} has a pre-shared key and {} has none: give {} the same (key of "
                    "MessengerOptions)",
                    label_, self_.node_name, self_.node_name));
  }
  throw StrangerError(StrangerKind::kOtherScheme, ErrorCode::kUnauthenticated,
                      fmt::format("{} asks for authentication scheme {}; {} has none", label_,
                                  static_cast<unsigned>(theirs), self_.node_name));
}

SessionSecrets Handshake::agree(const HelloMessage& hello, const HelloAckMessage& ack) const {
  try {
    return exchange_->agree(hello, ack);
  } catch (const Error& error) {
    throw StrangerError(StrangerKind::kWrongKey, error.code(),
                        fmt::format("{} sent {}", label_, error.what()));
  }
}

void Handshake::check_proof(const std::vector<std::byte>& proof,
                            const std::vector<std::byte>& due) const {
  if (is_same_proof(proof, due)) return;
  throw StrangerError(
      StrangerKind::kWrongKey, ErrorCode::kUnauthenticated,
      fmt::format("{} has another pre-shared key than {}, or somebody is between them: "
                  "give both the same key",
                  label_, self_.node_name));
}

Message Handshake::take_hello(const HelloMessage& hello) {
  HelloAckMessage answer;
  introduce_self(answer);
  last_words_ = answer;
  check_hello(hello);
  if (self_.key) {
    // Not before: what says no hello costs no key pair.
    begin_exchange(answer);
    const SessionSecrets secrets = agree(hello, answer);
    answer.proof = secrets.acceptor_proof;
    due_proof_ = secrets.initiator_proof;
    keys_ = StreamKeys{.send = secrets.to_initiator, .receive = secrets.to_acceptor};
    exchange_.reset();
    awaits_ = Awaits::kProof;
  } else {
    accepted_ = true;
    awaits_ = Awaits::kAttach;
  }
  last_words_.reset();
  return answer;
}

std::vector<Message> Handshake::take_hello_ack(const HelloAckMessage& ack) {
  check_hello(ack);
  std::vector<Message> answers;
  if (exchange_) {
    SessionSecrets secrets = agree(hello_, ack);
    check_proof(ack.proof, secrets.acceptor_proof);
    keys_ = StreamKeys{.send = secrets.to_acceptor, .receive = secrets.to_initiator};
    exchange_.reset();
    answers.emplace_back(ProofMessage{std::move(secrets.initiator_proof)});
  }
  accepted_ = true;
  AttachMessage attach;
  attach.layout = self_.layout;
  attach.regions = regions_for(true);
  attach.prefills = self_.prefills;
  attach.decodes = self_.decodes;
  attach.lost_after_ms = self_.lost_after_ms;
  attach.fabric_offer = engine_.offer();
  answers.emplace_back(std::move(attach));
  awaits_ = Awaits::kAttachAck;
  return answers;
}

void Handshake::take_proof(const ProofMessage& proof) {
  check_proof(proof.proof, due_proof_);
  accepted_ = true;
  awaits_ = Awaits::kAttach;
}

Message Handshake::take_attach(const AttachMessage& attach) {
  auto peer = plan_with(attach);
  options_.name = label_;
  auto introduction = engine_.accept_peer(attach.fabric_offer, options_);
  opened_ = introduction.peer;
  complete(introduction.peer, *peer);
  planned_ = std::move(peer);

  AttachAckMessage answer;
  answer.layout = self_.layout;
  answer.regions = regions_for(attach.prefills);
  answer.prefills = self_.prefills;
  answer.decodes = self_.decodes;
  answer.lost_after_ms = self_.lost_after_ms;
  answer.fabric_answer = std::move(introduction.reply);
  awaits_ = Awaits::kAttached;
  return answer;
}

Message Handshake::take_attach_ack(const AttachAckMessage& attach) {
  auto peer = plan_with(attach);
  options_.name = label_;
  auto introduction = engine_.connect_peer(attach.fabric_answer, options_);
  opened_ = introduction.peer;
  complete(introduction.peer, *peer);
  awaits_ = Awaits::kNothing;
  peer_ = std::move(peer);
  return AttachedMessage{std::move(introduction.reply)};
}

void Handshake::take_attached(const AttachedMessage& attached) {
  engine_.confirm_peer(*opened_, attached.fabric_confirm);
  awaits_ = Awaits::kNothing;
  peer_ = std::move(planned_);
}

template <class Attachment>
std::shared_ptr<AttachedPeer> Handshake::plan_with(const Attachment& attachment) const {
  auto peer = std::make_shared<AttachedPeer>();
  peer->node_name = node_name_;
  peer->label = label_;
  peer->lost_after_ms = attachment.lost_after_ms;
  const bool sends = self_.prefills && attachment.decodes;
  const bool receives = self_.decodes && attachment.prefills;
  if (!sends && !receives) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("neither node prefills for the other: {} {} and {} {}", self_.node_name,
                            roles(self_.prefills, self_.decodes), label_,
                            roles(attachment.prefills, attachment.decodes)));
  }
  if (receives) peer->receive.emplace(attachment.layout, self_.layout);
  if (sends) {
    TransferPlan plan(self_.layout, attachment.layout);
    LayerWriter writer(plan);
    auto descriptors = std::make_shared<const std::vector<RegionEntry>>(attachment.regions);
    peer->send.emplace(SendRoute{
        std::move(plan), std::move(writer), {}, std::move(descriptors), make_gates(self_.layout)});
  }
  return peer;
}

void Handshake::complete(PeerId links, AttachedPeer& peer) const {
  peer.id = links;
  peer.links = links;
  const auto several = [](const std::vector<std::uint16_t>& counts) {
    return std::any_of(counts.begin(), counts.end(), [](std::uint16_t count) { return count > 1; });
  };
  const TransferEngine::RailCounts rails = engine_.rail_counts(links);
  peer.fails_over = several(rails.local) || several(rails.remote);
  import_regions(engine_, peer);
}

std::vector<RegionEntry> Handshake::regions_for(bool peer_prefills) const {
  // Who knows a region's key can write there: it is told only to nodes that will.
  return self_.decodes && peer_prefills ? self_.regions : std::vector<RegionEntry>{};
}

}  // namespace kvrail

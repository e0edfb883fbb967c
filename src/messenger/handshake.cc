#include "messenger/handshake.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "messenger/region_import.h"
#include "messenger/send_gate.h"

namespace kvrail {
namespace {

[[noreturn]] void unexpected(const Message& message, std::string_view awaited) {
  throw Error(ErrorCode::kMalformed,
              fmt::format("a {} came where {} was due", name_of(message), awaited));
}

std::string_view roles(bool prefills, bool decodes) {
  if (prefills && decodes) return "prefills and decodes";
  if (prefills) return "prefills";
  return decodes ? "decodes" : "neither prefills nor decodes";
}

}  // namespace

Handshake::Handshake(const NodeIdentity& self, TransferEngine& engine, Side side,
                     std::string address, PeerOptions options)
    : self_(self),
      engine_(engine),
      address_(std::move(address)),
      options_(std::move(options)),
      awaits_(side == Side::kInitiator ? Awaits::kHelloAck : Awaits::kHello),
      label_(address_) {}

Message Handshake::hello() const {
  HelloMessage hello;
  hello.node_name = self_.node_name;
  hello.incarnation = self_.incarnation;
  return hello;
}

std::optional<Message> Handshake::take(const Message& message) {
  if (const auto* goodbye = std::get_if<GoodbyeMessage>(&message)) {
    throw Error(goodbye->code, fmt::format("{} refuses: {}", label_, goodbye->reason));
  }
  switch (awaits_) {
    case Awaits::kHello:
      if (const auto* hello = std::get_if<HelloMessage>(&message)) return take_hello(*hello);
      unexpected(message, "Hello");
    case Awaits::kHelloAck:
      if (const auto* hello = std::get_if<HelloAckMessage>(&message)) return take_hello_ack(*hello);
      unexpected(message, "HelloAck");
    case Awaits::kAttach:
      if (const auto* attach = std::get_if<AttachMessage>(&message)) return take_attach(*attach);
      unexpected(message, "Attach");
    case Awaits::kAttachAck:
      if (const auto* attach = std::get_if<AttachAckMessage>(&message)) {
        return take_attach_ack(*attach);
      }
      unexpected(message, "AttachAck");
    case Awaits::kAttached:
      if (const auto* attached = std::get_if<AttachedMessage>(&message)) {
        take_attached(*attached);
        return std::nullopt;
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
    throw Error(ErrorCode::kVersionMismatch,
                fmt::format("{} speaks version {} of the protocol and {} speaks version {}: both "
                            "must run the same",
                            self_.node_name, kProtocolVersion, label_, hello.protocol_version));
  }
  if (hello.auth != AuthScheme::kNone) {
    throw Error(ErrorCode::kUnauthenticated,
                fmt::format("{} asks for authentication scheme {}; {} has none", label_,
                            static_cast<unsigned>(hello.auth), self_.node_name));
  }
  if (hello.incarnation == self_.incarnation) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is this node itself: connect to another one", label_));
  }
}

Message Handshake::take_hello(const HelloMessage& hello) {
  HelloAckMessage answer;
  answer.node_name = self_.node_name;
  answer.incarnation = self_.incarnation;
  last_words_ = answer;
  check_hello(hello);
  last_words_.reset();
  awaits_ = Awaits::kAttach;
  return answer;
}

Message Handshake::take_hello_ack(const HelloAckMessage& hello) {
  check_hello(hello);
  AttachMessage attach;
  attach.layout = self_.layout;
  attach.regions = regions_for(true);
  attach.prefills = self_.prefills;
  attach.decodes = self_.decodes;
  attach.lost_after_ms = self_.lost_after_ms;
  attach.fabric_offer = engine_.offer();
  awaits_ = Awaits::kAttachAck;
  return attach;
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
    peer->send.emplace(SendRoute{std::move(plan),
                                 std::move(writer),
                                 {},
                                 std::move(descriptors),
                                 std::make_shared<SendGate>()});
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

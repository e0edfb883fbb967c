#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "wire/codec.h"
#include "wire/layout_codec.h"
#include "wire/message_limits.h"
#include "wire/wire_code.h"

namespace kvrail {
namespace {

// Envelope, Attach, Layout, Rank, RankGroup.
constexpr flatbuffers::uoffset_t kMaxDepth = 5;
// More than message_limits.h allows for one message in all.
constexpr flatbuffers::uoffset_t kMaxTables = 128u << 10;
static_assert(kMaxTables > kMaxRegions + std::size_t{kMaxCacheGroups} * (1 + kMaxTensors) +
                               std::size_t{kMaxRanks} * (2 + kMaxCacheGroups) + 16);
static_assert(static_cast<std::size_t>(wire::Body::MAX) == std::variant_size_v<Message>);

AuthScheme read_auth(FieldReader& reader, wire::Auth auth) {
  switch (auth) {
    case wire::Auth::none:
      return AuthScheme::kNone;
    case wire::Auth::psk:
      return AuthScheme::kPreSharedKey;
  }
  reader.fail(fmt::format("auth is {}, which is no known scheme", static_cast<int>(auth)));
}

ErrorCode read_code(FieldReader& reader, wire::Code code) {
  if (const auto ours = from_wire(code)) return *ours;
  reader.fail(fmt::format("code is {}, which is no known code", static_cast<int>(code)));
}

std::vector<CounterEntry> read_counters(FieldReader& reader,
                                        const flatbuffers::Vector<const wire::Counter*>* counters) {
  return reader.structs<CounterEntry>(
      counters, "counters", kMaxDeviceGroupEntries, [](const wire::Counter& c) {
        return CounterEntry{.group = DeviceGroupId(c.group()), .counter = CounterId(c.counter())};
      });
}

std::vector<UnitsEntry> read_posted(FieldReader& reader,
                                    const flatbuffers::Vector<const wire::Units*>* posted) {
  return reader.structs<UnitsEntry>(
      posted, "posted", kMaxDeviceGroupEntries, [](const wire::Units& u) {
        return UnitsEntry{.group = DeviceGroupId(u.group()), .units = u.units()};
      });
}

std::vector<RailId> read_rails(FieldReader& reader,
                               const flatbuffers::Vector<const wire::Rail*>* rails) {
  return reader.structs<RailId>(rails, "rails", kMaxDeviceGroupEntries, [](const wire::Rail& r) {
    return RailId{.group = DeviceGroupId(r.group()), .rail = RailIndex(r.rail())};
  });
}

std::vector<RegionEntry> read_regions(
    FieldReader& reader, const flatbuffers::Vector<flatbuffers::Offset<wire::Region>>* regions) {
  return reader.tables<RegionEntry>(regions, "regions", kMaxRegions, [&](const wire::Region& r) {
    return RegionEntry{
        .region = RegionId(r.region()),
        .descriptor = reader.blob(r.descriptor(), "regions.descriptor", kMaxDescriptorBytes)};
  });
}

Message read(FieldReader& reader, const wire::Hello& m) {
  HelloMessage result;
  result.protocol_version = m.protocol_version();
  result.node_name = reader.text(m.node_name(), "node_name", kMaxNameBytes);
  result.incarnation = m.incarnation();
  if (result.protocol_version == kProtocolVersion) {
    result.auth = read_auth(reader, m.auth());
    result.nonce = reader.blob(m.nonce(), "nonce", kMaxNonceBytes);
    result.public_key = reader.blob(m.public_key(), "public_key", kMaxNonceBytes);
  }
  return result;
}

Message read(FieldReader& reader, const wire::HelloAck& m) {
  HelloAckMessage result;
  result.protocol_version = m.protocol_version();
  result.node_name = reader.text(m.node_name(), "node_name", kMaxNameBytes);
  result.incarnation = m.incarnation();
  if (result.protocol_version == kProtocolVersion) {
    result.auth = read_auth(reader, m.auth());
    result.nonce = reader.blob(m.nonce(), "nonce", kMaxNonceBytes);
    result.proof = reader.blob(m.proof(), "proof", kMaxNonceBytes);
    result.public_key = reader.blob(m.public_key(), "public_key", kMaxNonceBytes);
  }
  return result;
}

Message read(FieldReader& reader, const wire::Attach& m) {
  return AttachMessage{
      .layout = read_layout(reader, m.layout()),
      .regions = read_regions(reader, m.regions()),
      .prefills = m.prefills(),
      .decodes = m.decodes(),
      .lost_after_ms = m.lost_after_ms(),
      .fabric_offer = reader.blob(m.fabric_offer(), "fabric_offer", kMaxFabricBytes)};
}

Message read(FieldReader& reader, const wire::AttachAck& m) {
  return AttachAckMessage{
      .layout = read_layout(reader, m.layout()),
      .regions = read_regions(reader, m.regions()),
      .prefills = m.prefills(),
      .decodes = m.decodes(),
      .lost_after_ms = m.lost_after_ms(),
      .fabric_answer = reader.blob(m.fabric_answer(), "fabric_answer", kMaxFabricBytes)};
}

Message read(FieldReader& reader, const wire::Attached& m) {
  return AttachedMessage{.fabric_confirm =
                             reader.blob(m.fabric_confirm(), "fabric_confirm", kMaxFabricBytes)};
}

Message read(FieldReader& reader, const wire::PrefillRequest& m) {
  PrefillRequestMessage result;
  result.wire_id = m.wire_id();
  result.external_id = reader.text(m.external_id(), "external_id", kMaxExternalIdBytes);
  result.prompt_tokens = m.prompt_tokens();
  const wire::TokenRange& sent = reader.required(m.sent(), "sent");
  result.sent = {.first = sent.first(), .end = sent.end()};
  result.pages.dp_rank = DpRank(m.dp_rank());
  result.pages.by_group = reader.tables<std::vector<PageIndex>>(
      m.pages(), "pages", kMaxCacheGroups, [&](const wire::PageTable& table) {
        return reader.ids<PageIndex>(table.pages(), "pages.pages", kMaxPagesPerRequest);
      });
  if (m.context_slot()) result.context_slot = ContextSlot(*m.context_slot());
  result.counters = read_counters(reader, m.counters());
  result.payload = reader.blob(m.payload(), "payload", kMaxPayloadBytes);
  return result;
}

Message read(FieldReader& reader, const wire::PrefillReject& m) {
  return PrefillRejectMessage{.wire_id = m.wire_id(),
                              .reason = reader.text(m.reason(), "reason", kMaxReasonBytes)};
}

Message read(FieldReader& reader, const wire::Cancel& m) {
  return CancelMessage{.wire_id = m.wire_id(),
                       .reason = reader.text(m.reason(), "reason", kMaxReasonBytes)};
}

Message read(FieldReader& reader, const wire::CancelAck& m) {
  return CancelAckMessage{.wire_id = m.wire_id(),
                          .links = m.links(),
                          .posted = read_posted(reader, m.posted()),
                          .progress = reader.text(m.progress(), "progress", kMaxReasonBytes)};
}

Message read(FieldReader& reader, const wire::Failed& m) {
  return FailedMessage{.wire_id = m.wire_id(),
                       .links = m.links(),
                       .code = read_code(reader, m.code()),
                       .reason = reader.text(m.reason(), "reason", kMaxReasonBytes),
                       .posted = read_posted(reader, m.posted())};
}

Message read(FieldReader&, const wire::Received& m) {
  return ReceivedMessage{.wire_id = m.wire_id()};
}

Message read(FieldReader& reader, const wire::Restart& m) {
  return RestartMessage{
      .wire_id = m.wire_id(), .links = m.links(), .counters = read_counters(reader, m.counters())};
}

Message read(FieldReader&, const wire::Heartbeat& m) {
  return HeartbeatMessage{.remaining_ms = m.remaining_ms()};
}

Message read(FieldReader&, const wire::Wake&) { return WakeMessage{}; }

Message read(FieldReader& reader, const wire::Goodbye& m) {
  return GoodbyeMessage{.code = read_code(reader, m.code()),
                        .reason = reader.text(m.reason(), "reason", kMaxReasonBytes)};
}

Message read(FieldReader& reader, const wire::RailFailed& m) {
  return RailFailedMessage{.links = m.links(),
                           .rails = read_rails(reader, m.rails()),
                           .peer_rails = read_rails(reader, m.peer_rails()),
                           .reason = reader.text(m.reason(), "reason", kMaxReasonBytes)};
}

Message read(FieldReader& reader, const wire::Relink& m) {
  return RelinkMessage{
      .links = m.links(),
      .rails = read_rails(reader, m.rails()),
      .reason = reader.text(m.reason(), "reason", kMaxReasonBytes),
      .fabric_offer = reader.blob(m.fabric_offer(), "fabric_offer", kMaxFabricBytes)};
}

Message read(FieldReader& reader, const wire::RelinkAck& m) {
  return RelinkAckMessage{
      .links = m.links(),
      .fabric_answer = reader.blob(m.fabric_answer(), "fabric_answer", kMaxFabricBytes)};
}

Message read(FieldReader& reader, const wire::Relinked& m) {
  return RelinkedMessage{
      .links = m.links(),
      .fabric_confirm = reader.blob(m.fabric_confirm(), "fabric_confirm", kMaxFabricBytes)};
}

Message read(FieldReader& reader, const wire::Proof& m) {
  return ProofMessage{.proof = reader.blob(m.proof(), "proof", kMaxNonceBytes)};
}

Message read(FieldReader&, const wire::LinksClosed& m) {
  return LinksClosedMessage{.links = m.links()};
}

template <class Table>
Message read_body(const wire::Envelope& envelope, std::size_t size) {
  FieldReader reader(wire::EnumNameBody(envelope.body_type()), size);
  Message message = read(reader, reader.required(envelope.body_as<Table>(), "body"));
  if (const std::string fault = find_fault(message); !fault.empty()) reader.fail(fault);
  return message;
}

Message read_envelope(const wire::Envelope& envelope, std::size_t size) {
  switch (envelope.body_type()) {
    case wire::Body::Hello:
      return read_body<wire::Hello>(envelope, size);
    case wire::Body::HelloAck:
      return read_body<wire::HelloAck>(envelope, size);
    case wire::Body::Attach:
      return read_body<wire::Attach>(envelope, size);
    case wire::Body::AttachAck:
      return read_body<wire::AttachAck>(envelope, size);
    case wire::Body::Attached:
      return read_body<wire::Attached>(envelope, size);
    case wire::Body::PrefillRequest:
      return read_body<wire::PrefillRequest>(envelope, size);
    case wire::Body::PrefillReject:
      return read_body<wire::PrefillReject>(envelope, size);
    case wire::Body::Cancel:
      return read_body<wire::Cancel>(envelope, size);
    case wire::Body::CancelAck:
      return read_body<wire::CancelAck>(envelope, size);
    case wire::Body::Failed:
      return read_body<wire::Failed>(envelope, size);
    case wire::Body::Received:
      return read_body<wire::Received>(envelope, size);
    case wire::Body::Restart:
      return read_body<wire::Restart>(envelope, size);
    case wire::Body::Heartbeat:
      return read_body<wire::Heartbeat>(envelope, size);
    case wire::Body::Wake:
      return read_body<wire::Wake>(envelope, size);
    case wire::Body::Goodbye:
      return read_body<wire::Goodbye>(envelope, size);
    case wire::Body::RailFailed:
      return read_body<wire::RailFailed>(envelope, size);
    case wire::Body::Relink:
      return read_body<wire::Relink>(envelope, size);
    case wire::Body::RelinkAck:
      return read_body<wire::RelinkAck>(envelope, size);
    case wire::Body::Relinked:
      return read_body<wire::Relinked>(envelope, size);
    case wire::Body::LinksClosed:
      return read_body<wire::LinksClosed>(envelope, size);
    case wire::Body::Proof:
      return read_body<wire::Proof>(envelope, size);
    case wire::Body::NONE:
      break;
  }
  FieldReader("control", size)
      .fail(fmt::format("body is of kind {}, which no message has",
                        static_cast<int>(envelope.body_type())));
}

Message decode_aligned(const std::uint8_t* bytes, std::size_t size) {
  flatbuffers::Verifier verifier(bytes, size, kMaxDepth, kMaxTables);
  if (!wire::VerifyEnvelopeBuffer(verifier)) {
    FieldReader("control", size)
        .fail(fmt::format("{} bytes that do not verify as an Envelope", size));
  }
  return read_envelope(*wire::GetEnvelope(bytes), size);
}

}  // namespace

Message decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kMinMessageBytes || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) {
    FieldReader("control", 0).fail(fmt::format("{} bytes are not one message", bytes.size()));
  }
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  constexpr std::size_t kAlignment = alignof(std::uint64_t);
  if (reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0) {
    return decode_aligned(data, bytes.size());
  }
  if (bytes.size() <= 4096) {
    alignas(kAlignment) std::array<std::uint8_t, 4096> copy;
    std::memcpy(copy.data(), data, bytes.size());
    return decode_aligned(copy.data(), bytes.size());
  }
  std::vector<std::uint64_t> copy((bytes.size() + kAlignment - 1) / kAlignment);
  std::memcpy(copy.data(), data, bytes.size());
  return decode_aligned(reinterpret_cast<const std::uint8_t*>(copy.data()), bytes.size());
}

}  // namespace kvrail

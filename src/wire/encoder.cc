#include <string>

#include <fmt/format.h>

#include "wire/codec.h"
#include "wire/layout_codec.h"
#include "wire/message_limits.h"
#include "wire/wire_code.h"

namespace kvrail {
namespace {

using flatbuffers::Offset;

// At most kMaxReasonBytes, not cut inside a UTF-8 sequence.
std::string_view cut_reason(const std::string& reason) {
  if (reason.size() <= kMaxReasonBytes) return reason;
  std::size_t size = kMaxReasonBytes;
  while (size > 0 && (static_cast<unsigned char>(reason[size]) & 0xc0) == 0x80) --size;
  return std::string_view(reason).substr(0, size);
}

// Writes a message's table and returns its offset as that of the union.
class BodyWriter {
 public:
  explicit BodyWriter(flatbuffers::FlatBufferBuilder& builder) : builder_(builder) {}

  Offset<void> operator()(const HelloMessage& m) {
    const auto name = builder_.CreateString(m.node_name);
    const auto nonce = blob(m.nonce);
    const auto public_key = blob(m.public_key);
    return wire::CreateHello(builder_, m.protocol_version, name, m.incarnation, to_wire(m.auth),
                             nonce, public_key)
        .Union();
  }
  Offset<void> operator()(const HelloAckMessage& m) {
    const auto name = builder_.CreateString(m.node_name);
    const auto nonce = blob(m.nonce);
    const auto proof = blob(m.proof);
    const auto public_key = blob(m.public_key);
    return wire::CreateHelloAck(builder_, m.protocol_version, name, m.incarnation, to_wire(m.auth),
                                nonce, proof, public_key)
        .Union();
  }
  Offset<void> operator()(const AttachMessage& m) {
    const auto layout = write_layout(builder_, m.layout);
    const auto regions = region_vector(m.regions);
    const auto offer = blob(m.fabric_offer);
    return wire::CreateAttach(builder_, layout, regions, m.prefills, m.decodes, m.lost_after_ms,
                              offer)
        .Union();
  }
  Offset<void> operator()(const AttachAckMessage& m) {
    const auto layout = write_layout(builder_, m.layout);
    const auto regions = region_vector(m.regions);
    const auto answer = blob(m.fabric_answer);
    return wire::CreateAttachAck(builder_, layout, regions, m.prefills, m.decodes, m.lost_after_ms,
                                 answer)
        .Union();
  }
  Offset<void> operator()(const AttachedMessage& m) {
    return wire::CreateAttached(builder_, blob(m.fabric_confirm)).Union();
  }
  Offset<void> operator()(const PrefillRequestMessage& m) {
    const auto external_id = builder_.CreateString(m.external_id);
    const wire::TokenRange sent(m.sent.first, m.sent.end);
    const auto pages = page_tables(m.pages);
    const auto counters = counter_vector(m.counters);
    const auto payload = blob(m.payload);
    flatbuffers::Optional<std::uint32_t> slot;
    if (m.context_slot) slot = m.context_slot->value();
    return wire::CreatePrefillRequest(builder_, m.wire_id, external_id, m.prompt_tokens, &sent,
                                      m.pages.dp_rank.value(), pages, slot, counters, payload)
        .Union();
  }
  Offset<void> operator()(const PrefillRejectMessage& m) {
    return wire::CreatePrefillReject(builder_, m.wire_id, reason(m.reason)).Union();
  }
  Offset<void> operator()(const CancelMessage& m) {
    return wire::CreateCancel(builder_, m.wire_id, reason(m.reason)).Union();
  }
  Offset<void> operator()(const CancelAckMessage& m) {
    const auto posted = units_vector(m.posted);
    return wire::CreateCancelAck(builder_, m.wire_id, m.links, posted, reason(m.progress)).Union();
  }
  Offset<void> operator()(const FailedMessage& m) {
    const auto text = reason(m.reason);
    const auto posted = units_vector(m.posted);
    return wire::CreateFailed(builder_, m.wire_id, m.links, to_wire(m.code), text, posted).Union();
  }
  Offset<void> operator()(const ReceivedMessage& m) {
    return wire::CreateReceived(builder_, m.wire_id).Union();
  }
  Offset<void> operator()(const RestartMessage& m) {
    return wire::CreateRestart(builder_, m.wire_id, m.links, counter_vector(m.counters)).Union();
  }
  Offset<void> operator()(const HeartbeatMessage& m) {
    return wire::CreateHeartbeat(builder_, m.remaining_ms).Union();
  }
  Offset<void> operator()(const WakeMessage&) { return wire::CreateWake(builder_).Union(); }
  Offset<void> operator()(const ProofMessage& m) {
    return wire::CreateProof(builder_, blob(m.proof)).Union();
  }
  Offset<void> operator()(const GoodbyeMessage& m) {
    return wire::CreateGoodbye(builder_, to_wire(m.code), reason(m.reason)).Union();
  }
  Offset<void> operator()(const RailFailedMessage& m) {
    const auto rails = rail_vector(m.rails);
    const auto peer_rails = rail_vector(m.peer_rails);
    return wire::CreateRailFailed(builder_, m.links, rails, peer_rails, reason(m.reason)).Union();
  }
  Offset<void> operator()(const RelinkMessage& m) {
    const auto rails = rail_vector(m.rails);
    const auto text = reason(m.reason);
    return wire::CreateRelink(builder_, m.links, rails, text, blob(m.fabric_offer)).Union();
  }
  Offset<void> operator()(const RelinkAckMessage& m) {
    return wire::CreateRelinkAck(builder_, m.links, blob(m.fabric_answer)).Union();
  }
  Offset<void> operator()(const RelinkedMessage& m) {
    return wire::CreateRelinked(builder_, m.links, blob(m.fabric_confirm)).Union();
  }
  Offset<void> operator()(const LinksClosedMessage& m) {
    return wire::CreateLinksClosed(builder_, m.links).Union();
  }

 private:
  Offset<flatbuffers::Vector<std::uint8_t>> blob(const std::vector<std::byte>& bytes) {
    return builder_.CreateVector(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  Offset<flatbuffers::String> reason(const std::string& text) {
    const std::string_view cut = cut_reason(text);
    return builder_.CreateString(cut.data(), cut.size());
  }
  Offset<flatbuffers::Vector<Offset<wire::Region>>> region_vector(
      const std::vector<RegionEntry>& regions) {
    std::vector<Offset<wire::Region>> offsets;
    offsets.reserve(regions.size());
    for (const RegionEntry& entry : regions) {
      offsets.push_back(wire::CreateRegion(builder_, entry.region.value(), blob(entry.descriptor)));
    }
    return builder_.CreateVector(offsets);
  }
  Offset<flatbuffers::Vector<Offset<wire::PageTable>>> page_tables(const RequestPages& pages) {
    std::vector<Offset<wire::PageTable>> offsets;
    offsets.reserve(pages.by_group.size());
    for (const auto& table : pages.by_group) {
      std::uint32_t* out = nullptr;
      const auto vector = builder_.CreateUninitializedVector<std::uint32_t>(table.size(), &out);
      for (std::size_t i = 0; i < table.size(); ++i) {
        flatbuffers::WriteScalar(out + i, table[i].value());
      }
      offsets.push_back(wire::CreatePageTable(builder_, vector));
    }
    return builder_.CreateVector(offsets);
  }
  Offset<flatbuffers::Vector<const wire::Counter*>> counter_vector(
      const std::vector<CounterEntry>& counters) {
    std::vector<wire::Counter> structs;
    structs.reserve(counters.size());
    for (const CounterEntry& entry : counters) {
      structs.emplace_back(entry.group.value(), entry.counter.value());
    }
    return builder_.CreateVectorOfStructs(structs);
  }
  Offset<flatbuffers::Vector<const wire::Rail*>> rail_vector(const std::vector<RailId>& rails) {
    std::vector<wire::Rail> structs;
    structs.reserve(rails.size());
    for (const RailId& id : rails) structs.emplace_back(id.group.value(), id.rail.value());
    return builder_.CreateVectorOfStructs(structs);
  }
  Offset<flatbuffers::Vector<const wire::Units*>> units_vector(
      const std::vector<UnitsEntry>& units) {
    std::vector<wire::Units> structs;
    structs.reserve(units.size());
    for (const UnitsEntry& entry : units) {
      structs.emplace_back(entry.group.value(), entry.units);
    }
    return builder_.CreateVectorOfStructs(structs);
  }

  flatbuffers::FlatBufferBuilder& builder_;
};

}  // namespace

void encode_to(const Message& message, std::vector<std::byte>& out) {
  if (const std::string fault = find_fault(message); !fault.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the {} message cannot be sent: {}", name_of(message), fault));
  }
  flatbuffers::FlatBufferBuilder builder(256);
  const Offset<void> body = std::visit(BodyWriter(builder), message);
  // The union lists the messages in the order of the variant, after NONE.
  const auto type = static_cast<wire::Body>(message.index() + 1);
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, type, body));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  out.insert(out.end(), bytes, bytes + builder.GetSize());
}

std::vector<std::byte> encode(const Message& message) {
  std::vector<std::byte> bytes;
  encode_to(message, bytes);
  return bytes;
}

}  // namespace kvrail

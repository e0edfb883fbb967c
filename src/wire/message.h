#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

// What two messengers say to each other on the control stream, as plain data. The bytes are
// FlatBuffers (schema: control.fbs); codec.h turns one into the other and verifies what it is
// given.
//
// Requests are named by the decode node's RequestId value ("wire id"): unique within one control
// stream, which is one incarnation of both nodes.

inline constexpr std::uint32_t kProtocolVersion = 4;

enum class AuthScheme : std::uint8_t {
  kNone = 0,
  kPreSharedKey = 1,
};

// Initiator's first message, in clear.
struct HelloMessage {
  std::uint32_t protocol_version = kProtocolVersion;
  std::string node_name;
  std::uint64_t incarnation = 0;  // random per messenger: another life of the same node differs
  AuthScheme auth = AuthScheme::kNone;
  // With a pre-shared key; KeyExchange knows what they are. Else empty.
  std::vector<std::byte> nonce;
  std::vector<std::byte> public_key;

  bool operator==(const HelloMessage&) const = default;
};
// Acceptor's answer, in clear; `proof` is over both hellos. With a pre-shared key all that follows
// is encrypted, in both directions.
struct HelloAckMessage {
  std::uint32_t protocol_version = kProtocolVersion;
  std::string node_name;
  std::uint64_t incarnation = 0;
  AuthScheme auth = AuthScheme::kNone;
  std::vector<std::byte> nonce;
  std::vector<std::byte> proof;
  std::vector<std::byte> public_key;

  bool operator==(const HelloAckMessage&) const = default;
};

// A region that the peer may write, by the RegionId that the layout's placements name.
struct RegionEntry {
  RegionId region;
  std::vector<std::byte> descriptor;

  bool operator==(const RegionEntry&) const = default;
};

// Initiator, after HelloAck and its Proof: what it holds. Told only after the acceptor's proof
// (when there is a key).
struct AttachMessage {
  KvLayout layout;
  std::vector<RegionEntry> regions;
  bool prefills = false;            // has a PrefillScheduler
  bool decodes = false;             // has a DecodeScheduler
  std::uint32_t lost_after_ms = 0;  // silence after which the sender gives the other up
  std::vector<std::byte> fabric_offer;

  bool operator==(const AttachMessage&) const = default;
};
struct AttachAckMessage {
  KvLayout layout;
  std::vector<RegionEntry> regions;
  bool prefills = false;
  bool decodes = false;
  std::uint32_t lost_after_ms = 0;
  std::vector<std::byte> fabric_answer;

  bool operator==(const AttachAckMessage&) const = default;
};
struct AttachedMessage {
  std::vector<std::byte> fabric_confirm;

  bool operator==(const AttachedMessage&) const = default;
};

// A counter of (prefill peer, device group of the decode node).
struct CounterEntry {
  DeviceGroupId group;
  CounterId counter;

  bool operator==(const CounterEntry&) const = default;
};

struct PrefillRequestMessage {
  std::uint64_t wire_id = 0;
  std::string external_id;
  std::uint32_t prompt_tokens = 0;
  TokenRange sent;
  RequestPages pages;                       // target pages of the whole prompt
  std::optional<ContextSlot> context_slot;  // target slot
  std::vector<CounterEntry> counters;
  std::vector<std::byte> payload;

  bool operator==(const PrefillRequestMessage&) const = default;
};
struct PrefillRejectMessage {
  std::uint64_t wire_id = 0;
  std::string reason;

  bool operator==(const PrefillRejectMessage&) const = default;
};
// Units posted per device group of the decode node.
struct UnitsEntry {
  DeviceGroupId group;
  std::uint64_t units = 0;

  bool operator==(const UnitsEntry&) const = default;
};
struct CancelMessage {
  std::uint64_t wire_id = 0;
  std::string reason;

  bool operator==(const CancelMessage&) const = default;
};
// Nothing more is posted; `posted` is final. Empty for a request that is not known: a late one with
// that id is refused.
struct CancelAckMessage {
  std::uint64_t wire_id = 0;
  std::uint32_t links = 0;  // the set of links that `posted` counts
  std::vector<UnitsEntry> posted;
  std::string progress;  // what was not computed or not sent, for people

  bool operator==(const CancelAckMessage&) const = default;
};
// The prefill side gave the request up; it posts nothing more of it. `posted` is final: decode is
// quiescent when its counters have reached it.
struct FailedMessage {
  std::uint64_t wire_id = 0;
  std::uint32_t links = 0;  // the set of links that `posted` counts
  ErrorCode code = ErrorCode::kFabric;
  std::string reason;
  std::vector<UnitsEntry> posted;

  bool operator==(const FailedMessage&) const = default;
};
// The decode side has everything (or is quiescent): the prefill side may forget the request.
struct ReceivedMessage {
  std::uint64_t wire_id = 0;

  bool operator==(const ReceivedMessage&) const = default;
};
// The decode side's old links are closed: everything is to be sent again, over that set of links
// and on these counters.
struct RestartMessage {
  std::uint64_t wire_id = 0;
  std::uint32_t links = 0;
  std::vector<CounterEntry> counters;

  bool operator==(const RestartMessage&) const = default;
};
struct HeartbeatMessage {
  std::uint32_t remaining_ms = 0;  // of the sender's lease; never a clock reading

  bool operator==(const HeartbeatMessage&) const = default;
};
// The sender is about to write after a pause.
struct WakeMessage {
  bool operator==(const WakeMessage&) const = default;
};
// Initiator, with a pre-shared key: the first message that is encrypted. Small, so that nobody
// sends large messages before it.
struct ProofMessage {
  std::vector<std::byte> proof;

  bool operator==(const ProofMessage&) const = default;
};
// Orderly end: the sender has closed its links for this peer.
struct GoodbyeMessage {
  ErrorCode code = ErrorCode::kShutDown;
  std::string reason;

  bool operator==(const GoodbyeMessage&) const = default;
};

// The links between two nodes are replaced as a set when a rail fails; sets are numbered from 0.
//
// Acceptor: the set is to be replaced, without these rails of either side.
struct RailFailedMessage {
  std::uint32_t links = 0;
  std::vector<RailId> rails;       // the acceptor's
  std::vector<RailId> peer_rails;  // the initiator's
  std::string reason;

  bool operator==(const RailFailedMessage&) const = default;
};
// Initiator: set links - 1 is given up and this one takes its place, without these rails of the
// acceptor's.
struct RelinkMessage {
  std::uint32_t links = 0;
  std::vector<RailId> rails;
  std::string reason;
  std::vector<std::byte> fabric_offer;

  bool operator==(const RelinkMessage&) const = default;
};
struct RelinkAckMessage {
  std::uint32_t links = 0;
  std::vector<std::byte> fabric_answer;

  bool operator==(const RelinkAckMessage&) const = default;
};
struct RelinkedMessage {
  std::uint32_t links = 0;
  std::vector<std::byte> fabric_confirm;

  bool operator==(const RelinkedMessage&) const = default;
};
// The sender has closed its links of that set.
struct LinksClosedMessage {
  std::uint32_t links = 0;

  bool operator==(const LinksClosedMessage&) const = default;
};

using Message =
    std::variant<HelloMessage, HelloAckMessage, AttachMessage, AttachAckMessage, AttachedMessage,
                 PrefillRequestMessage, PrefillRejectMessage, CancelMessage, CancelAckMessage,
                 FailedMessage, ReceivedMessage, RestartMessage, HeartbeatMessage, WakeMessage,
                 GoodbyeMessage, RailFailedMessage, RelinkMessage, RelinkAckMessage,
                 RelinkedMessage, LinksClosedMessage, ProofMessage>;

// "PrefillRequest", for logs.
std::string_view name_of(const Message& message);

}  // namespace kvrail

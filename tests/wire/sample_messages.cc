#include "wire/sample_messages.h"

#include <algorithm>
#include <string>
#include <vector>

#include "wire/message_limits.h"

namespace kvrail {
namespace {

// Uniform in [first, last].
std::uint64_t pick(Random& random, std::uint64_t first, std::uint64_t last) {
  return std::uniform_int_distribution<std::uint64_t>(first, last)(random);
}
std::uint32_t any32(Random& random) { return static_cast<std::uint32_t>(random()); }

std::vector<std::byte> bytes(Random& random, std::size_t max_size) {
  std::vector<std::byte> result(pick(random, 0, max_size));
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

// Any bytes, also those that are no text.
std::string text(Random& random, std::size_t max_size) {
  std::string result(pick(random, 0, max_size), ' ');
  for (char& c : result) c = static_cast<char>(random());
  return result;
}

std::string name(Random& random) {
  std::string result(pick(random, 0, 20), ' ');
  for (char& c : result) c = static_cast<char>(pick(random, ' ', '~'));
  return result;
}

AuthScheme auth(Random& random) {
  return random() % 2 == 0 ? AuthScheme::kNone : AuthScheme::kPreSharedKey;
}

ErrorCode code(Random& random) {
  return static_cast<ErrorCode>(pick(random, static_cast<int>(ErrorCode::kInvalidArgument),
                                     static_cast<int>(ErrorCode::kPreempted)));
}

template <class Make>
auto several(Random& random, std::size_t max_count, Make make) {
  std::vector<decltype(make(std::size_t{0}))> result;
  const std::size_t count = pick(random, 0, max_count);
  for (std::size_t i = 0; i < count; ++i) result.push_back(make(i));
  return result;
}

std::vector<RegionEntry> regions(Random& random) {
  const std::uint32_t first = any32(random) / 2;
  return several(random, 5, [&](std::size_t i) {
    return RegionEntry{.region = RegionId(first + static_cast<std::uint32_t>(i)),
                       .descriptor = bytes(random, 60)};
  });
}

std::vector<CounterEntry> counters(Random& random) {
  return several(random, 9, [&](std::size_t i) {
    return CounterEntry{.group = DeviceGroupId(static_cast<std::uint16_t>(65535 - i)),
                        .counter = CounterId(pick(random, 1, kMaxCounterValue))};
  });
}

std::vector<UnitsEntry> posted(Random& random) {
  return several(random, 9, [&](std::size_t i) {
    return UnitsEntry{.group = DeviceGroupId(static_cast<std::uint16_t>(i)), .units = random()};
  });
}

std::vector<RailId> rails(Random& random) {
  return several(random, 4, [&](std::size_t i) {
    return RailId{.group = DeviceGroupId(static_cast<std::uint16_t>(i / 2)),
                  .rail = RailIndex(static_cast<std::uint16_t>(i % 2))};
  });
}

PrefillRequestMessage prefill_request(Random& random) {
  PrefillRequestMessage result;
  result.wire_id = random();
  result.external_id = text(random, 40);
  result.prompt_tokens = any32(random);
  result.sent.end = static_cast<std::uint32_t>(pick(random, 0, result.prompt_tokens));
  result.sent.first = static_cast<std::uint32_t>(pick(random, 0, result.sent.end));
  result.pages.dp_rank = DpRank(any32(random));
  result.pages.by_group = several(random, 3, [&](std::size_t) {
    return several(random, 50, [&](std::size_t) { return PageIndex(any32(random)); });
  });
  if (random() % 2 == 0) result.context_slot = ContextSlot(any32(random) % 3);
  result.counters = counters(random);
  result.payload = bytes(random, 200);
  return result;
}

}  // namespace

KvLayout sample_layout(Random& random) {
  KvLayout layout;
  layout.model = name(random);
  layout.layer_count = any32(random);
  layout.groups = several(random, 3, [&](std::size_t) {
    return CacheGroup{
        .name = name(random),
        .kind = random() % 2 == 0 ? CacheKind::kTokens : CacheKind::kState,
        .page_tokens = any32(random),
        .page_count = any32(random),
        .window_tokens = any32(random),
        .cp_ranks = any32(random),
        .cp_interleave_tokens = any32(random),
        .tensors = several(random, 3,
                           [&](std::size_t) {
                             return TensorLayout{
                                 .name = name(random),
                                 .heads = any32(random),
                                 .head_bytes = any32(random),
                                 .order = random() % 2 == 0 ? PageOrder::kHnd : PageOrder::kNhd};
                           }),
        .layers = several(random, 9, [&](std::size_t) { return LayerIndex(any32(random)); })};
  });
  const auto rank_group = [&](std::size_t) {
    return RankGroup{
        .heads = several(
            random, 3,
            [&](std::size_t) { return HeadRange{.first = any32(random), .count = any32(random)}; }),
        .placements = several(random, 6, [&](std::size_t) {
          return TensorPlacement{.layer = LayerIndex(any32(random)),
                                 .tensor = any32(random),
                                 .region = RegionId(any32(random)),
                                 .base_offset_bytes = random(),
                                 .page_stride_bytes = random(),
                                 .head_stride_bytes = random(),
                                 .token_stride_bytes = random()};
        })};
  };
  layout.ranks = several(random, 4, [&](std::size_t) {
    return RankLayout{.dp_rank = DpRank(any32(random)),
                      .tp_rank = any32(random),
                      .pp_rank = any32(random),
                      .cp_rank = any32(random),
                      .replica_set = any32(random),
                      .device_group = DeviceGroupId(static_cast<std::uint16_t>(random())),
                      .groups = several(random, 3, rank_group)};
  });
  layout.contexts = several(random, 3, [&](std::size_t) {
    return ContextLayout{.slot_count = any32(random),
                         .slot_bytes = random(),
                         .slot_stride_bytes = random(),
                         .rank = RankIndex(any32(random)),
                         .region = RegionId(any32(random)),
                         .base_offset_bytes = random()};
  });
  return layout;
}

Message sample_message(std::size_t kind, Random& random) {
  const auto lost_after_ms = static_cast<std::uint32_t>(pick(random, 1, 100000));
  switch (kind) {
    case 0:
      return HelloMessage{.node_name = name(random),
                          .incarnation = random(),
                          .auth = auth(random),
                          .nonce = bytes(random, kMaxNonceBytes),
                          .public_key = bytes(random, 32)};
    case 1:
      return HelloAckMessage{.node_name = name(random),
                             .incarnation = random(),
                             .auth = auth(random),
                             .nonce = bytes(random, 32),
                             .proof = bytes(random, kMaxNonceBytes),
                             .public_key = bytes(random, kMaxNonceBytes)};
    case 2:
      return AttachMessage{.layout = sample_layout(random),
                           .regions = regions(random),
                           .prefills = random() % 2 == 0,
                           .decodes = random() % 2 == 0,
                           .lost_after_ms = lost_after_ms,
                           .fabric_offer = bytes(random, 100)};
    case 3:
      return AttachAckMessage{.layout = sample_layout(random),
                              .regions = regions(random),
                              .prefills = random() % 2 == 0,
                              .decodes = random() % 2 == 0,
                              .lost_after_ms = lost_after_ms,
                              .fabric_answer = bytes(random, 100)};
    case 4:
      return AttachedMessage{.fabric_confirm = bytes(random, 100)};
    case 5:
      return prefill_request(random);
    case 6:
      return PrefillRejectMessage{.wire_id = random(), .reason = text(random, 90)};
    case 7:
      return CancelMessage{.wire_id = random(), .reason = text(random, 90)};
    case 8:
      return CancelAckMessage{.wire_id = random(),
                              .links = any32(random),
                              .posted = posted(random),
                              .progress = text(random, 90)};
    case 9:
      return FailedMessage{.wire_id = random(),
                           .links = any32(random),
                           .code = code(random),
                           .reason = text(random, 90),
                           .posted = posted(random)};
    case 10:
      return ReceivedMessage{.wire_id = random()};
    case 11:
      return RestartMessage{
          .wire_id = random(), .links = any32(random), .counters = counters(random)};
    case 12:
      return HeartbeatMessage{.remaining_ms = any32(random)};
    case 13:
      return WakeMessage{};
    case 14:
      return GoodbyeMessage{.code = code(random), .reason = text(random, 90)};
    case 15:
      return RailFailedMessage{.links = any32(random),
                               .rails = rails(random),
                               .peer_rails = rails(random),
                               .reason = text(random, 90)};
    case 16:
      return RelinkMessage{.links = any32(random) | 1,
                           .rails = rails(random),
                           .reason = text(random, 90),
                           .fabric_offer = bytes(random, 100)};
    case 17:
      return RelinkAckMessage{.links = any32(random), .fabric_answer = bytes(random, 100)};
    case 18:
      return RelinkedMessage{.links = any32(random), .fabric_confirm = bytes(random, 100)};
    case 19:
      return LinksClosedMessage{.links = any32(random)};
    default:
      return ProofMessage{.proof = bytes(random, kMaxNonceBytes)};
  }
}

}  // namespace kvrail

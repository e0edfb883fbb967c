#include "wire/message_limits.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace kvrail {
namespace {

std::string size_fault(std::string_view field, std::size_t size, std::size_t limit,
                       std::string_view what) {
  if (size <= limit) return {};
  return fmt::format("{} has {} {}; at most {} are allowed", field, size, what, limit);
}

std::string name_fault(std::string_view field, std::string_view name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_control)) {
    return fmt::format("{} holds a control character", field);
  }
  return size_fault(field, name.size(), kMaxNameBytes, "bytes");
}

// Every entry's `key` once.
template <class Entry, class Key>
std::string repetition_fault(std::string_view field, const std::vector<Entry>& entries, Key key) {
  std::vector<std::uint64_t> seen;
  seen.reserve(entries.size());
  for (const Entry& entry : entries) seen.push_back(key(entry).value());
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice == seen.end()) return {};
  return fmt::format("{} has {} twice", field, *twice);
}

std::string counters_fault(const std::vector<CounterEntry>& counters) {
  if (auto fault = size_fault("counters", counters.size(), kMaxDeviceGroupEntries, "entries");
      !fault.empty()) {
    return fault;
  }
  for (const CounterEntry& entry : counters) {
    if (entry.counter.value() < 1 || entry.counter.value() > kMaxCounterValue) {
      return fmt::format("counters has counter {}; counters are 1 to {}", entry.counter.value(),
                         kMaxCounterValue);
    }
  }
  return repetition_fault("counters", counters, [](const auto& entry) { return entry.group; });
}

std::string posted_fault(const std::vector<UnitsEntry>& posted) {
  if (auto fault = size_fault("posted", posted.size(), kMaxDeviceGroupEntries, "entries");
      !fault.empty()) {
    return fault;
  }
  return repetition_fault("posted", posted, [](const auto& entry) { return entry.group; });
}

std::string rails_fault(const std::vector<RailId>& rails) {
  if (auto fault = size_fault("rails", rails.size(), kMaxDeviceGroupEntries, "entries");
      !fault.empty()) {
    return fault;
  }
  std::vector<RailId> sorted = rails;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return {};
  return fmt::format("rails has rail {} of device group {} twice", twice->rail.value(),
                     twice->group.value());
}

std::string regions_fault(const std::vector<RegionEntry>& regions) {
  if (auto fault = size_fault("regions", regions.size(), kMaxRegions, "entries"); !fault.empty()) {
    return fault;
  }
  for (const RegionEntry& entry : regions) {
    if (auto fault =
            size_fault("regions.descriptor", entry.descriptor.size(), kMaxDescriptorBytes, "bytes");
        !fault.empty()) {
      return fault;
    }
  }
  return repetition_fault("regions", regions, [](const auto& entry) { return entry.region; });
}

std::string group_fault(const CacheGroup& group, std::size_t& entries) {
  entries += group.layers.size();
  std::string fault = name_fault("layout.groups.name", group.name);
  if (fault.empty()) {
    fault = size_fault("layout.groups.tensors", group.tensors.size(), kMaxTensors, "entries");
  }
  for (const TensorLayout& tensor : group.tensors) {
    if (fault.empty()) fault = name_fault("layout.groups.tensors.name", tensor.name);
  }
  return fault;
}

std::string layout_fault(const KvLayout& layout) {
  std::size_t entries = 0;
  std::string fault = name_fault("layout.model", layout.model);
  if (fault.empty()) {
    fault = size_fault("layout.groups", layout.groups.size(), kMaxCacheGroups, "entries");
  }
  if (fault.empty()) fault = size_fault("layout.ranks", layout.ranks.size(), kMaxRanks, "entries");
  if (fault.empty()) {
    fault = size_fault("layout.contexts", layout.contexts.size(), kMaxRanks, "entries");
  }
  if (!fault.empty()) return fault;
  for (const CacheGroup& group : layout.groups) {
    if (fault = group_fault(group, entries); !fault.empty()) return fault;
  }
  for (const RankLayout& rank : layout.ranks) {
    fault = size_fault("layout.ranks.groups", rank.groups.size(), kMaxCacheGroups, "entries");
    if (!fault.empty()) return fault;
    for (const RankGroup& group : rank.groups) {
      entries += group.heads.size() + group.placements.size();
    }
  }
  return size_fault("layout", entries, kMaxLayoutEntries, "layers, heads and placements");
}

template <class Attachment>
std::string attachment_fault(const Attachment& m) {
  if (m.lost_after_ms == 0) return "lost_after_ms is 0; at least 1 is needed";
  std::string fault = layout_fault(m.layout);
  if (fault.empty()) fault = regions_fault(m.regions);
  return fault;
}

std::string public_key_fault(const std::vector<std::byte>& public_key) {
  return size_fault("public_key", public_key.size(), kMaxNonceBytes, "bytes");
}

struct FaultFinder {
  std::string operator()(const HelloMessage& m) const {
    std::string fault = name_fault("node_name", m.node_name);
    if (fault.empty()) fault = size_fault("nonce", m.nonce.size(), kMaxNonceBytes, "bytes");
    if (fault.empty()) fault = public_key_fault(m.public_key);
    return fault;
  }
  std::string operator()(const HelloAckMessage& m) const {
    std::string fault = name_fault("node_name", m.node_name);
    if (fault.empty()) fault = size_fault("nonce", m.nonce.size(), kMaxNonceBytes, "bytes");
    if (fault.empty()) fault = size_fault("proof", m.proof.size(), kMaxNonceBytes, "bytes");
    if (fault.empty()) fault = public_key_fault(m.public_key);
    return fault;
  }
  std::string operator()(const AttachMessage& m) const {
    std::string fault = attachment_fault(m);
    if (fault.empty()) {
      fault = size_fault("fabric_offer", m.fabric_offer.size(), kMaxFabricBytes, "bytes");
    }
    return fault;
  }
  std::string operator()(const AttachAckMessage& m) const {
    std::string fault = attachment_fault(m);
    if (fault.empty()) {
      fault = size_fault("fabric_answer", m.fabric_answer.size(), kMaxFabricBytes, "bytes");
    }
    return fault;
  }
  std::string operator()(const AttachedMessage& m) const {
    return size_fault("fabric_confirm", m.fabric_confirm.size(), kMaxFabricBytes, "bytes");
  }
  std::string operator()(const PrefillRequestMessage& m) const {
    if (m.sent.first > m.sent.end || m.sent.end > m.prompt_tokens) {
      return fmt::format("sent is the tokens [{}, {}) of a prompt of {}", m.sent.first, m.sent.end,
                         m.prompt_tokens);
    }
    std::string fault =
        size_fault("external_id", m.external_id.size(), kMaxExternalIdBytes, "bytes");
    if (fault.empty()) {
      fault = size_fault("pages", m.pages.by_group.size(), kMaxCacheGroups, "tables");
    }
    std::size_t pages = 0;
    for (const auto& table : m.pages.by_group) pages += table.size();
    if (fault.empty()) fault = size_fault("pages", pages, kMaxPagesPerRequest, "pages");
    if (fault.empty()) fault = counters_fault(m.counters);
    if (fault.empty()) fault = size_fault("payload", m.payload.size(), kMaxPayloadBytes, "bytes");
    return fault;
  }
  std::string operator()(const CancelAckMessage& m) const { return posted_fault(m.posted); }
  std::string operator()(const FailedMessage& m) const {
    if (m.code == ErrorCode::kOk) return "code is ok";
    return posted_fault(m.posted);
  }
  std::string operator()(const RestartMessage& m) const { return counters_fault(m.counters); }
  std::string operator()(const GoodbyeMessage& m) const {
    return m.code == ErrorCode::kOk ? "code is ok" : "";
  }
  std::string operator()(const PrefillRejectMessage&) const { return {}; }
  std::string operator()(const CancelMessage&) const { return {}; }
  std::string operator()(const ReceivedMessage&) const { return {}; }
  std::string operator()(const HeartbeatMessage&) const { return {}; }
  std::string operator()(const WakeMessage&) const { return {}; }
  std::string operator()(const RailFailedMessage& m) const {
    std::string fault = rails_fault(m.rails);
    if (fault.empty()) fault = rails_fault(m.peer_rails);
    return fault;
  }
  std::string operator()(const RelinkMessage& m) const {
    if (m.links == 0) return "links is 0, which is the set of the handshake";
    std::string fault = rails_fault(m.rails);
    if (fault.empty()) {
      fault = size_fault("fabric_offer", m.fabric_offer.size(), kMaxFabricBytes, "bytes");
    }
    return fault;
  }
  std::string operator()(const RelinkAckMessage& m) const {
    return size_fault("fabric_answer", m.fabric_answer.size(), kMaxFabricBytes, "bytes");
  }
  std::string operator()(const RelinkedMessage& m) const {
    return size_fault("fabric_confirm", m.fabric_confirm.size(), kMaxFabricBytes, "bytes");
  }
  std::string operator()(const LinksClosedMessage&) const { return {}; }
  std::string operator()(const ProofMessage& m) const {
    return size_fault("proof", m.proof.size(), kMaxNonceBytes, "bytes");
  }
};

}  // namespace

std::string find_fault(const Message& message) { return std::visit(FaultFinder{}, message); }
std::string find_fault(const KvLayout& layout) { return layout_fault(layout); }

}  // namespace kvrail

#include "support/fabric_local_node.h"

#include <algorithm>

namespace kvrail {

LocalNode::LocalNode(TransferEngineOptions options)
    : engine_(std::make_unique<TransferEngine>(std::move(options))) {}

LocalNode::~LocalNode() { destroy_engine(); }

FabricNode::Region LocalNode::register_memory(DeviceGroupId group,
                                              std::shared_ptr<TestMemory> memory,
                                              std::uint64_t offset, std::uint64_t size_bytes) {
  MemoryRegion region = engine_->register_memory(group, memory->data() + offset, size_bytes);
  const Region result{region.id(), region.descriptor()};
  const std::lock_guard lock(mutex_);
  regions_.emplace(result.id, Registered{std::move(memory), std::move(region)});
  return result;
}

void LocalNode::deregister(RegionId region) {
  Registered registered;
  const std::lock_guard lock(mutex_);
  if (const auto found = regions_.find(region); found != regions_.end()) {
    registered = std::move(found->second);
    regions_.erase(found);
  }
}

void LocalNode::destroy_engine() {
  silence_bell();
  engine_.reset();
}

std::vector<std::uint64_t> bytes_by_rail(FabricNode& node, DeviceGroupId group) {
  std::vector<std::uint64_t> bytes;
  for (const RailStats& rail : node.stats().rails) {
    if (rail.device_group != group) continue;
    bytes.resize(std::max<std::size_t>(bytes.size(), rail.rail.value() + 1));
    bytes[rail.rail.value()] += rail.bytes_posted;
  }
  return bytes;
}

LinkStats peer_stats(FabricNode& node, PeerId peer) {
  for (const PeerStats& stats : node.stats().peers) {
    if (stats.peer == peer) return stats.links;
  }
  return {};
}

}  // namespace kvrail

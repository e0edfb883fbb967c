#include "fabric/channel_plan.h"

#include <algorithm>

namespace kvrail {
namespace {

struct RailPair {
  std::size_t source;
  std::size_t target;
};

std::vector<std::size_t> linked_rails(const GroupRails& group) {
  std::vector<std::size_t> rails;
  for (std::size_t rail = 0; rail < group.count(); ++rail) {
    if (group.has_link(rail)) rails.push_back(rail);
  }
  return rails;
}

// Rail k talks to rail k even where others are left out: on some networks it reaches no other.
std::vector<RailPair> pair_rails(const GroupRails& source, const GroupRails& target) {
  std::vector<RailPair> pairs;
  for (std::size_t k = 0; k < std::max(source.count(), target.count()); ++k) {
    const RailPair pair{k % source.count(), k % target.count()};
    if (source.has_link(pair.source) && target.has_link(pair.target)) pairs.push_back(pair);
  }
  if (!pairs.empty()) return pairs;
  const auto sources = linked_rails(source);
  const auto targets = linked_rails(target);
  for (std::size_t k = 0; k < std::max(sources.size(), targets.size()); ++k) {
    pairs.push_back({sources[k % sources.size()], targets[k % targets.size()]});
  }
  return pairs;
}

RailIndex index_of(std::size_t rail) { return RailIndex(static_cast<std::uint16_t>(rail)); }

}  // namespace

std::vector<ChannelPlan> plan_channels(const NodeRails& source, const NodeRails& target) {
  std::vector<ChannelPlan> channels;
  std::vector<std::vector<std::uint32_t>> into(target.size());
  std::vector<std::vector<std::uint32_t>> out_of(source.size());
  for (std::size_t h = 0; h < target.size(); ++h) into[h].resize(target[h].count());
  for (std::size_t g = 0; g < source.size(); ++g) out_of[g].resize(source[g].count());
  for (std::size_t g = 0; g < source.size(); ++g) {
    for (std::size_t h = 0; h < target.size(); ++h) {
      for (const RailPair& pair : pair_rails(source[g], target[h])) {
        channels.push_back({DeviceGroupId(static_cast<std::uint16_t>(g)), index_of(pair.source),
                            DeviceGroupId(static_cast<std::uint16_t>(h)), index_of(pair.target),
                            into[h][pair.target]++, out_of[g][pair.source]++});
      }
    }
  }
  return channels;
}

std::uint32_t sources_per_link(const std::vector<ChannelPlan>& channels, DeviceGroupId target) {
  std::uint32_t most = 1;
  for (const ChannelPlan& channel : channels) {
    if (channel.target_group == target) most = std::max(most, channel.tag + 1);
  }
  return most;
}

std::uint32_t sources_of_link(const std::vector<ChannelPlan>& channels, DeviceGroupId target,
                              RailIndex rail) {
  return static_cast<std::uint32_t>(
      std::count_if(channels.begin(), channels.end(), [&](const ChannelPlan& channel) {
        return channel.target_group == target && channel.target_rail == rail;
      }));
}

std::uint32_t channels_out_of(const std::vector<ChannelPlan>& channels, DeviceGroupId source,
                              RailIndex rail) {
  return static_cast<std::uint32_t>(
      std::count_if(channels.begin(), channels.end(), [&](const ChannelPlan& channel) {
        return channel.source_group == source && channel.source_rail == rail;
      }));
}

}  // namespace kvrail

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvrail/ids.h"

namespace kvrail {

// Of one node; more are refused, from options and from peers alike.
inline constexpr std::size_t kMaxDeviceGroups = 64;
inline constexpr std::size_t kMaxRailsPerGroup = 64;

// Rails of each device group of a node, for one provider.
using RailCounts = std::vector<std::uint16_t>;

// One way from a link of the sender to a link of the target, with a credit of its own.
struct ChannelPlan {
  DeviceGroupId source_group;
  RailIndex source_rail;
  DeviceGroupId target_group;
  RailIndex target_rail;
  std::uint32_t tag = 0;         // among the channels into the same target link
  std::uint32_t grant_word = 0;  // among the channels out of the same source link
};

// All channels from one node to another: between every two device groups, as many as the larger
// one has rails, rail k of one side against rail k of the other, modulo their counts. Both sides
// compute the same.
inline std::vector<ChannelPlan> plan_channels(const RailCounts& source, const RailCounts& target) {
  std::vector<ChannelPlan> channels;
  std::vector<std::vector<std::uint32_t>> into(target.size());
  std::vector<std::vector<std::uint32_t>> out_of(source.size());
  for (std::size_t h = 0; h < target.size(); ++h) into[h].resize(target[h]);
  for (std::size_t g = 0; g < source.size(); ++g) out_of[g].resize(source[g]);
  for (std::size_t g = 0; g < source.size(); ++g) {
    for (std::size_t h = 0; h < target.size(); ++h) {
      const std::uint16_t count = source[g] > target[h] ? source[g] : target[h];
      for (std::uint16_t k = 0; k < count; ++k) {
        const auto i = static_cast<std::uint16_t>(k % source[g]);
        const auto j = static_cast<std::uint16_t>(k % target[h]);
        channels.push_back({DeviceGroupId(static_cast<std::uint16_t>(g)), RailIndex(i),
                            DeviceGroupId(static_cast<std::uint16_t>(h)), RailIndex(j),
                            into[h][j]++, out_of[g][i]++});
      }
    }
  }
  return channels;
}

// Links of the source that write to one link of the target group, at most.
inline std::uint32_t sources_per_link(const std::vector<ChannelPlan>& channels,
                                      DeviceGroupId target) {
  std::uint32_t most = 1;
  for (const ChannelPlan& channel : channels) {
    if (channel.target_group == target) most = channel.tag + 1 > most ? channel.tag + 1 : most;
  }
  return most;
}

// Links of the source that write to this link of the target group.
inline std::uint32_t sources_of_link(const std::vector<ChannelPlan>& channels, DeviceGroupId target,
                                     RailIndex rail) {
  std::uint32_t count = 0;
  for (const ChannelPlan& channel : channels) {
    if (channel.target_group == target && channel.target_rail == rail) ++count;
  }
  return count;
}

// Channels that leave from this link of the source group.
inline std::uint32_t channels_out_of(const std::vector<ChannelPlan>& channels, DeviceGroupId source,
                                     RailIndex rail) {
  std::uint32_t count = 0;
  for (const ChannelPlan& channel : channels) {
    if (channel.source_group == source && channel.source_rail == rail) ++count;
  }
  return count;
}

}  // namespace kvrail

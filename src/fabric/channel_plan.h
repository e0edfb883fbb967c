#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvrail/ids.h"

namespace kvrail {

// Of one node; more are refused, from options and from peers alike.
inline constexpr std::size_t kMaxDeviceGroups = 64;
inline constexpr std::size_t kMaxRailsPerGroup = 64;

// The rails of one device group, and which of them have links with one peer.
class GroupRails {
 public:
  GroupRails() = default;
  // All of them have; at most kMaxRailsPerGroup.
  explicit GroupRails(std::size_t count)
      : count_(static_cast<std::uint16_t>(count)),
        linked_(count < 64 ? (std::uint64_t{1} << count) - 1 : ~std::uint64_t{0}) {}
  GroupRails(std::size_t count, std::uint64_t linked)
      : count_(static_cast<std::uint16_t>(count)), linked_(linked & GroupRails(count).linked_) {}

  std::uint16_t count() const { return count_; }
  // A bit per rail.
  std::uint64_t linked() const { return linked_; }
  bool has_link(std::size_t rail) const { return (linked_ >> rail & 1) != 0; }
  bool has_any_link() const { return linked_ != 0; }
  void leave_out(RailIndex rail) { linked_ &= ~(std::uint64_t{1} << rail.value()); }

  bool operator==(const GroupRails&) const = default;

 private:
  std::uint16_t count_ = 0;
  std::uint64_t linked_ = 0;
};

// Of a node, for one provider: per device group.
using NodeRails = std::vector<GroupRails>;

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
// one has rails, rail k of one side against rail k of the other, modulo their counts, where both
// have links. Where that leaves two groups without a channel, the rails that have links are paired
// in their order. Both sides compute the same.
std::vector<ChannelPlan> plan_channels(const NodeRails& source, const NodeRails& target);

// Links of the source that write to one link of the target group, at most; at least 1.
std::uint32_t sources_per_link(const std::vector<ChannelPlan>& channels, DeviceGroupId target);

// Links of the source that write to this link of the target group.
std::uint32_t sources_of_link(const std::vector<ChannelPlan>& channels, DeviceGroupId target,
                              RailIndex rail);

// Channels that leave from this link of the source group.
std::uint32_t channels_out_of(const std::vector<ChannelPlan>& channels, DeviceGroupId source,
                              RailIndex rail);

}  // namespace kvrail

#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/channel_plan.h"
#include "fabric/left_out.h"
#include "kvrail/error.h"

namespace kvrail {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

// The rails of one group against those of another.
Pairs pairs_of(const GroupRails& source, const GroupRails& target) {
  Pairs pairs;
  for (const ChannelPlan& channel : plan_channels({source}, {target})) {
    pairs.emplace_back(channel.source_rail.value(), channel.target_rail.value());
  }
  return pairs;
}

TEST(RailPlan, RailsKeepTheirPartners) {
  EXPECT_EQ(pairs_of(GroupRails(3), GroupRails(3)), (Pairs{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_EQ(pairs_of(GroupRails(3, 0b101), GroupRails(3)), (Pairs{{0, 0}, {2, 2}}));
  EXPECT_EQ(pairs_of(GroupRails(3, 0b101), GroupRails(3, 0b110)), (Pairs{{2, 2}}));
  EXPECT_EQ(pairs_of(GroupRails(1), GroupRails(3, 0b110)), (Pairs{{0, 1}, {0, 2}}));
  EXPECT_EQ(pairs_of(GroupRails(4, 0b1100), GroupRails(2)), (Pairs{{2, 0}, {3, 1}}));
}

TEST(RailPlan, RailsWithoutPartnersArePairedAnew) {
  EXPECT_EQ(pairs_of(GroupRails(2, 0b01), GroupRails(2, 0b10)), (Pairs{{0, 1}}));
  EXPECT_EQ(pairs_of(GroupRails(4, 0b0111), GroupRails(4, 0b1000)),
            (Pairs{{0, 3}, {1, 3}, {2, 3}}));
}

// Whatever is left out, both directions use the same pairs, and no two groups are without one.
TEST(RailPlan, HoldsForAllChoices) {
  for (std::size_t ours = 1; ours <= 5; ++ours) {
    for (std::size_t theirs = 1; theirs <= 5; ++theirs) {
      for (std::uint64_t here = 1; here < std::uint64_t{1} << ours; ++here) {
        for (std::uint64_t there = 1; there < std::uint64_t{1} << theirs; ++there) {
          const GroupRails source(ours, here);
          const GroupRails target(theirs, there);
          const Pairs forward = pairs_of(source, target);
          ASSERT_FALSE(forward.empty());
          std::set<std::pair<int, int>> reversed;
          for (const auto& [from, to] : forward) {
            ASSERT_TRUE(source.has_link(from) && target.has_link(to));
            reversed.emplace(to, from);
          }
          const Pairs back = pairs_of(target, source);
          ASSERT_EQ(std::set(back.begin(), back.end()), reversed);
          ASSERT_EQ(reversed.size(), forward.size());
        }
      }
    }
  }
}

TEST(LeftOut, TakesRailsFromEveryProvider) {
  const std::vector<RailId> rails = {{DeviceGroupId(0), RailIndex(1)},
                                     {DeviceGroupId(1), RailIndex(0)}};
  const auto left =
      leave_out({{GroupRails(4), GroupRails(2)}, {GroupRails(1), GroupRails(2)}}, rails);
  EXPECT_EQ(left[0], (NodeRails{GroupRails(4, 0b1101), GroupRails(2, 0b10)}));
  EXPECT_EQ(left[1], (NodeRails{GroupRails(1), GroupRails(2, 0b10)}));
}

TEST(LeftOut, DropsAProviderWithoutARail) {
  const std::vector<RailId> rails = {{DeviceGroupId(0), RailIndex(0)}};
  const auto left = leave_out({{GroupRails(2)}, {GroupRails(1)}}, rails);
  EXPECT_EQ(left[0], (NodeRails{GroupRails(2, 0b10)}));
  EXPECT_TRUE(left[1].empty());
  EXPECT_THROW(leave_out({{GroupRails(1)}, {GroupRails(1)}}, rails), Error);
}

}  // namespace
}  // namespace kvrail

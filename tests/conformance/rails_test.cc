#include <random>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

// One list in each direction under way at once, twice.
void transfer_both_ways(std::vector<FabricLane>& lanes, std::mt19937_64& random) {
  struct Sent {
    WriteOutcome written;
    CounterOutcome reached;
    std::uint64_t units;
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<Sent> all;
    for (FabricLane& lane : lanes) {
      auto runs = random_runs(random, lane.source().size_bytes(), lane.target().size_bytes(),
                              RunShape::kMixed, {.max_units = 3});
      lane.note(runs);
      const CounterId counter = lane.take_counter();
      const std::uint64_t units = units_of(runs);
      auto reached = lane.expect(counter, units);
      all.push_back({lane.submit(counter, std::move(runs)), std::move(reached), units});
    }
    for (const Sent& sent : all) {
      ASSERT_TRUE(written(sent.written));
      ASSERT_TRUE(counted(sent.reached, sent.units));
    }
    for (const FabricLane& lane : lanes) ASSERT_TRUE(lane.target_is_right());
  }
}

class Rails : public FabricTest {
 protected:
  void transfer_over(std::uint16_t local_rails, std::uint16_t other_rails) {
    SCOPED_TRACE(testing::Message() << local_rails << " rails and " << other_rails);
    const auto options = engine_options(GetParam());
    FabricPair pair(GetParam(), with_rails(options, local_rails), with_rails(options, other_rails));
    std::mt19937_64 random(local_rails * 16 + other_rails);
    std::vector<FabricLane> lanes;
    lanes.push_back(pair.lane_to_other({2 * kMiB, 4 * kMiB, {}, {}}, random()));
    lanes.push_back(pair.lane_to_local({2 * kMiB, 4 * kMiB, {}, {}}, random()));
    transfer_both_ways(lanes, random);
    EXPECT_TRUE(pair.no_errors());
  }
};

TEST_P(Rails, EqualCounts) {
  for (const std::uint16_t rails : {1, 2, 4}) transfer_over(rails, rails);
}

TEST_P(Rails, UnequalCounts) {
  transfer_over(1, 2);
  transfer_over(2, 1);
  transfer_over(4, 3);
  transfer_over(3, 4);
  transfer_over(1, 16);
}

// Every group of one side writes to every group of the other.
TEST_P(Rails, SeveralDeviceGroups) {
  const auto options = engine_options(GetParam());
  FabricPair pair(GetParam(), with_rails(options, 1, 2), with_rails(options, 2, 2));
  std::mt19937_64 random(5);
  std::vector<FabricLane> lanes;
  for (const std::uint16_t from : {0, 1}) {
    for (const std::uint16_t to : {0, 1}) {
      const FabricLane::Size size{kMiB, 2 * kMiB, DeviceGroupId(from), DeviceGroupId(to)};
      lanes.push_back(pair.lane_to_other(size, random()));
      lanes.push_back(pair.lane_to_local(size, random()));
    }
  }
  transfer_both_ways(lanes, random);
  EXPECT_TRUE(pair.no_errors());
}

TEST_P(Rails, UnequalDeviceGroups) {
  const auto options = engine_options(GetParam());
  FabricPair pair(GetParam(), with_rails(options, 2, 1), with_rails(options, 1, 3));
  std::mt19937_64 random(6);
  std::vector<FabricLane> lanes;
  for (const std::uint16_t group : {0, 1, 2}) {
    lanes.push_back(pair.lane_to_other({kMiB, 2 * kMiB, {}, DeviceGroupId(group)}, random()));
    lanes.push_back(pair.lane_to_local({kMiB, 2 * kMiB, DeviceGroupId(group), {}}, random()));
  }
  transfer_both_ways(lanes, random);
  EXPECT_TRUE(pair.no_errors());
}

// One counter takes what two device groups of the peer send.
TEST_P(Rails, TwoSourceGroupsOneCounter) {
  const auto options = engine_options(GetParam());
  FabricPair pair(GetParam(), with_rails(options, 2, 2), with_rails(options, 2, 1));
  std::mt19937_64 random(7);
  auto first = pair.lane_to_other({kMiB, 2 * kMiB, DeviceGroupId(0), {}}, 70);
  auto second = pair.lane_to_other({kMiB, 2 * kMiB, DeviceGroupId(1), {}}, 71);
  const auto runs = random_runs(random, kMiB, 2 * kMiB, RunShape::kMixed, {});
  first.note(runs);
  second.note(runs);
  const CounterId counter = first.take_counter();
  const auto reached = first.expect(counter, 2 * units_of(runs));
  const auto sent_first = first.submit(counter, runs);
  const auto sent_second = second.submit(counter, runs);
  ASSERT_TRUE(written(sent_first));
  ASSERT_TRUE(written(sent_second));
  ASSERT_TRUE(counted(reached, 2 * units_of(runs)));
  EXPECT_TRUE(first.target_is_right());
  EXPECT_TRUE(second.target_is_right());
}

KVRAIL_CONFORMANCE(Rails);

}  // namespace
}  // namespace kvrail

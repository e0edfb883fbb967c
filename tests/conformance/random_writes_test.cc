#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

class RandomWrites : public FabricTest {};

TEST_P(RandomWrites, EveryShapeArrivesByteForByte) {
  FabricPair pair(GetParam());
  std::mt19937_64 random(1);
  for (const RunShape shape : {RunShape::kMixed, RunShape::kAdjacent, RunShape::kGathered,
                               RunShape::kScattered, RunShape::kApart}) {
    for (const RunLimits limits :
         {RunLimits{.max_bytes = 300, .max_units = 3, .max_runs = 3000}, RunLimits{.max_units = 1},
          RunLimits{.max_bytes = 3 * kMiB, .max_units = 40}}) {
      SCOPED_TRACE(testing::Message() << "shape " << static_cast<int>(shape) << ", runs up to "
                                      << limits.max_bytes << " bytes");
      auto lane = pair.lane_to_other({4 * kMiB, 8 * kMiB, {}, {}}, random());
      const auto runs = random_runs(random, 4 * kMiB, 8 * kMiB, shape, limits);
      ASSERT_TRUE(lane.transfer(runs));
      ASSERT_TRUE(lane.target_is_right());
      lane.remove();
    }
  }
  EXPECT_TRUE(pair.no_errors());
}

TEST_P(RandomWrites, BothDirectionsAtOnce) {
  FabricPair pair(GetParam());
  std::mt19937_64 random(2);
  std::array lanes = {pair.lane_to_other({2 * kMiB, 4 * kMiB, {}, {}}, 20),
                      pair.lane_to_local({2 * kMiB, 4 * kMiB, {}, {}}, 21)};
  struct Sent {
    WriteOutcome written;
    CounterOutcome reached;
    std::uint64_t units;
  };
  std::vector<Sent> all;
  constexpr int kLists = 16;
  constexpr std::uint64_t kSlice = 4 * kMiB / kLists;
  for (int i = 0; i < kLists; ++i) {
    for (FabricLane& lane : lanes) {
      auto runs = random_runs(random, 2 * kMiB, kSlice, RunShape::kMixed, {.max_units = 5});
      for (WriteRun& run : runs) run.target_offset += static_cast<std::uint64_t>(i) * kSlice;
      lane.note(runs);
      const CounterId counter = lane.take_counter();
      const std::uint64_t units = units_of(runs);
      auto reached = lane.expect(counter, units);
      all.push_back({lane.submit(counter, std::move(runs)), std::move(reached), units});
    }
  }
  for (const Sent& sent : all) {
    ASSERT_TRUE(written(sent.written));
    ASSERT_TRUE(counted(sent.reached, sent.units));
  }
  for (const FabricLane& lane : lanes) EXPECT_TRUE(lane.target_is_right());
  EXPECT_TRUE(pair.no_errors());
}

TEST_P(RandomWrites, OneCounterForSeveralTargets) {
  FabricPair pair(GetParam());
  std::mt19937_64 random(3);
  std::vector<FabricLane> lanes;
  std::vector<std::vector<WriteRun>> runs;
  std::uint64_t units = 0;
  for (std::uint64_t i = 0; i < 5; ++i) {
    lanes.push_back(pair.lane_to_other({kMiB, kMiB + i, {}, {}}, 30 + i));
    runs.push_back(random_runs(random, kMiB, kMiB + i, RunShape::kMixed, {.max_units = 2}));
    lanes.back().note(runs.back());
    units += units_of(runs.back());
  }
  const CounterId counter = lanes[0].take_counter();
  const auto reached = lanes[0].expect(counter, units);
  std::vector<WriteOutcome> sent;
  for (std::size_t i = 0; i < lanes.size(); ++i) sent.push_back(lanes[i].submit(counter, runs[i]));
  for (const auto& outcome : sent) ASSERT_TRUE(written(outcome));
  ASSERT_TRUE(counted(reached, units));
  for (const FabricLane& lane : lanes) EXPECT_TRUE(lane.target_is_right());
}

// What an immediate cannot hold is split, in units and in bytes.
TEST_P(RandomWrites, MoreUnitsThanAnImmediateHolds) {
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other({4 * kMiB, 4 * kMiB, {}, {}});
  std::vector<WriteRun> runs = {{0, 0, 8192, 4095},
                                {8192, 8192, 8192, 4096},
                                {100, 20'000, 50'000, 50'000},
                                {0, 100'000, 3 * kMiB, 12'345}};
  ASSERT_TRUE(lane.transfer(runs));
  EXPECT_TRUE(lane.target_is_right());
  // Neighbours whose units together are too many for one immediate.
  runs.clear();
  for (std::uint64_t i = 0; i < 8; ++i) runs.push_back({i * 2000, i * 2000, 2000, 1500});
  ASSERT_TRUE(lane.transfer(runs));
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_TRUE(pair.no_errors());
}

TEST_P(RandomWrites, RunsAboveTheLargestWrite) {
  auto options = engine_options(GetParam());
  options.max_write_bytes = 64 * 1024;
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other({3 * kMiB, 6 * kMiB, {}, {}});
  // As many units as writes, and more.
  const std::vector<WriteRun> runs = {{5, 3, 2 * kMiB + 1, 33}, {0, 3 * kMiB, 3 * kMiB, 50'000}};
  ASSERT_TRUE(lane.transfer(runs));
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_GE(peer_stats(pair.local(), pair.connection().initiator().peer).writes_posted,
            bytes_of(runs) / (64 * 1024));
}

TEST_P(RandomWrites, ReportsAndStatisticsAddUp) {
  FabricPair pair(GetParam());
  std::mt19937_64 random(4);
  auto lane = pair.lane_to_other({kMiB, 2 * kMiB, {}, {}});
  const auto runs = random_runs(random, kMiB, 2 * kMiB, RunShape::kMixed, {.max_units = 7});
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, units_of(runs));
  const auto sent = lane.submit(counter, runs);
  ASSERT_TRUE(written(sent));
  ASSERT_TRUE(counted(reached, units_of(runs)));

  const WriteReport report = sent->wait()->report;
  EXPECT_EQ(report.bytes_posted, bytes_of(runs));
  EXPECT_EQ(report.units_posted, units_of(runs));
  EXPECT_GT(report.writes_posted, 0U);
  EXPECT_LE(report.writes_posted, runs.size() + 2);
  EXPECT_GT(report.submitted_ns, 0);
  EXPECT_LE(report.submitted_ns, report.first_post_ns);
  EXPECT_LE(report.first_post_ns, report.last_completion_ns);
  const CounterReport arrivals = reached->wait()->report;
  EXPECT_GE(arrivals.first_arrival_ns, report.first_post_ns);
  EXPECT_GE(arrivals.last_arrival_ns, arrivals.first_arrival_ns);

  const LinkStats sender = peer_stats(pair.local(), pair.connection().initiator().peer);
  const LinkStats target = peer_stats(pair.other(), pair.connection().acceptor().peer);
  EXPECT_EQ(sender.bytes_posted, bytes_of(runs));
  EXPECT_EQ(sender.units_posted, units_of(runs));
  EXPECT_EQ(sender.runs_posted, runs.size());
  EXPECT_EQ(sender.writes_posted, report.writes_posted);
  EXPECT_EQ(sender.writes_completed, report.writes_posted);
  EXPECT_EQ(sender.writes_failed, 0U);
  EXPECT_EQ(target.units_received, units_of(runs));
  EXPECT_EQ(target.immediates_received, report.writes_posted);
  EXPECT_EQ(target.stray_units, 0U);
  EXPECT_EQ(sent->calls(), 1);
  EXPECT_EQ(reached->calls(), 1);
}

// Neighbouring pages become few writes.
TEST_P(RandomWrites, NeighboursAreMerged) {
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other({4 * kMiB, 4 * kMiB, {}, {}});
  const auto runs = strided_runs(1024, 4096, 4096, 4 * kMiB);
  ASSERT_TRUE(lane.transfer(runs));
  EXPECT_TRUE(lane.target_is_right());
  const LinkStats stats = peer_stats(pair.local(), pair.connection().initiator().peer);
  EXPECT_EQ(stats.runs_posted, 1024U);
  EXPECT_LE(stats.writes_posted, 64U);
}

KVRAIL_CONFORMANCE(RandomWrites);

}  // namespace
}  // namespace kvrail

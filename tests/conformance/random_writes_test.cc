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
         {RunLimits{.max_bytes = 300, .max_units = 3, .max_ranges = 3000},
          RunLimits{.max_units = 1}, RunLimits{.max_bytes = 3 * kMiB, .max_units = 40}}) {
      SCOPED_TRACE(testing::Message() << "shape " << static_cast<int>(shape) << ", ranges up to "
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
  EXPECT_LE(report.writes_posted, ranges_of(runs) + 2);
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
  EXPECT_EQ(sender.runs_posted, ranges_of(runs));
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

// Pages of tokens of heads become pages of heads of tokens, and back: a run per head, or one per
// token, with a range for each of the other.
TEST_P(RandomWrites, HeadsAndTokensChangePlaces) {
  FabricPair pair(GetParam());
  constexpr std::uint32_t kHeads = 8;
  constexpr std::uint32_t kTokens = 64;
  constexpr std::uint64_t kRow = 256;  // of one token and head
  constexpr std::uint64_t kPage = kHeads * kTokens * kRow;
  constexpr std::uint64_t kPages = 8;
  auto lane = pair.lane_to_other({kPages * kPage, 2 * kPages * kPage, {}, {}});
  std::vector<WriteRun> runs;
  for (std::uint64_t page = 0; page < kPages; ++page) {
    const std::uint64_t from = page * kPage;
    const std::uint64_t by_head = (2 * kPages - 1 - page) * kPage;
    for (std::uint64_t head = 0; head < kHeads; ++head) {
      runs.push_back({from + head * kRow, by_head + head * kTokens * kRow, kRow, 1, kTokens,
                      kHeads * kRow, kRow});
    }
    const std::uint64_t by_token = page * kPage;
    for (std::uint64_t token = 0; token < kTokens; ++token) {
      runs.push_back({from + token * kRow, by_token + token * kHeads * kRow, kRow, 1, kHeads,
                      kTokens * kRow, kRow});
    }
  }
  ASSERT_TRUE(lane.transfer(runs));
  EXPECT_TRUE(lane.target_is_right());
  const LinkStats stats = peer_stats(pair.local(), pair.connection().initiator().peer);
  EXPECT_EQ(stats.runs_posted, 2 * kPages * kTokens * kHeads);
  EXPECT_EQ(stats.bytes_posted, 2 * kPages * kPage);
  EXPECT_TRUE(pair.no_errors());
}

// A run of neighbouring ranges is as good as one of their size.
TEST_P(RandomWrites, NeighboursOfARunAreMerged) {
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other({4 * kMiB, 4 * kMiB, {}, {}});
  ASSERT_TRUE(lane.transfer({{0, 0, 4096, 1, 1024, 4096, 4096}}));
  EXPECT_TRUE(lane.target_is_right());
  const LinkStats stats = peer_stats(pair.local(), pair.connection().initiator().peer);
  EXPECT_EQ(stats.runs_posted, 1024U);
  EXPECT_LE(stats.writes_posted, 64U);
}

// Ranges that each take several writes, in bytes and in units.
TEST_P(RandomWrites, RangesAboveTheLargestWrite) {
  auto options = engine_options(GetParam());
  options.max_write_bytes = 64 * 1024;
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other({2 * kMiB, 6 * kMiB, {}, {}});
  const std::vector<WriteRun> runs = {{5, 3, kMiB + 1, 17, 3, 333, kMiB + 4},
                                      {0, 4 * kMiB, 12'000, 10'000, 5, 0, 12'000}};
  ASSERT_TRUE(lane.transfer(runs));
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_TRUE(pair.no_errors());
}

KVRAIL_CONFORMANCE(RandomWrites);

}  // namespace
}  // namespace kvrail

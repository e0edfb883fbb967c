#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMiB = 1024 * 1024;

class Fairness : public FabricTest {};

// A hundred thousand pages in one submission, in memory of a modest size: each target page is
// written several times, always with the same bytes.
TEST_P(Fairness, OthersGetTheirTurnDuringALongSubmission) {
  constexpr std::size_t kRuns = scaled(100'000);
  constexpr std::size_t kPlaces = 8192;
  auto options = engine_options(GetParam());
  options.queue_depth = 64;
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other({kPlaces * kPage, 2 * kPlaces * kPage, {}, {}});
  std::vector<WriteRun> runs;
  for (std::size_t i = 0; i < kRuns; ++i) {
    const std::size_t place = i * 2731 % kPlaces;  // no two neighbours in a row
    runs.push_back({place * kPage, 2 * place * kPage, kPage, 1});
  }
  lane.note(runs);

  LocalNode third(engine_options(GetParam()));
  FabricConnection connection(pair.local(), third);
  FabricLane small(connection.forward(), {16 * kPage, 16 * kPage, {}, {}}, 2);
  ASSERT_TRUE(small.works());

  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, kRuns);
  const auto sent = lane.submit(counter, runs);
  int completed = 0;
  const Deadline deadline;
  while (sent->calls() == 0 && !deadline.passed()) {
    ASSERT_TRUE(small.transfer({{0, 0, kPage, 1}, {3 * kPage, 8 * kPage, 2 * kPage, 1}}));
    if (sent->calls() == 0) ++completed;
  }
  ASSERT_TRUE(written(sent));
  ASSERT_TRUE(counted(reached, kRuns));
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_TRUE(small.target_is_right());
  EXPECT_GE(completed, 5);
  RecordProperty("small_submissions_meanwhile", completed);
  EXPECT_TRUE(pair.no_errors());
}

KVRAIL_CONFORMANCE(Fairness);

class StoppedPeer : public FabricTest {};

TEST_P(StoppedPeer, EverythingArrivesOnceItGoesOn) {
  constexpr std::size_t kRuns = 4'000;
  constexpr std::uint64_t kSize = 16 * 1024;
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other({4 * kMiB, kRuns * (kSize + 8), {}, {}});
  const auto runs = strided_runs(kRuns, kSize, kSize + 8, 4 * kMiB);
  lane.note(runs);
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, kRuns);
  const auto sent = lane.submit(counter, runs);
  ASSERT_TRUE(poll_until([&] { return lane.peek(counter).units_arrived > kRuns / 20; }));
  ASSERT_TRUE(pair.remote().process().stop());

  const Deadline second(std::chrono::seconds(1));
  if (GetParam().isolates_stopped_peers()) {
    // Meanwhile the rest of this engine works.
    Bystander third(GetParam(), pair.local());
    while (!second.passed()) ASSERT_TRUE(third.works());
  } else {
    EXPECT_TRUE(poll_until([&] { return second.passed(); }));
  }
  const bool was_in_mid_transfer = reached->calls() == 0;
  pair.remote().process().resume();

  ASSERT_TRUE(written(sent));
  ASSERT_TRUE(counted(reached, kRuns));
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_TRUE(pair.no_errors());
  RecordProperty("in_mid_transfer", was_in_mid_transfer);
}

// The sender is the one that stops.
TEST_P(StoppedPeer, ASenderGoesOnToo) {
  constexpr std::size_t kRuns = 4'000;
  constexpr std::uint64_t kSize = 16 * 1024;
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_local({4 * kMiB, kRuns * (kSize + 8), {}, {}});
  const auto runs = strided_runs(kRuns, kSize, kSize + 8, 4 * kMiB);
  lane.note(runs);
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, kRuns);
  const auto sent = lane.submit(counter, runs);
  ASSERT_TRUE(poll_until([&] { return lane.peek(counter).units_arrived > kRuns / 20; }));
  ASSERT_TRUE(pair.remote().process().stop());
  EXPECT_TRUE(holds_for(std::chrono::seconds(1),
                        [&] { return lane.peek(counter).units_arrived <= kRuns; }));
  pair.remote().process().resume();
  ASSERT_TRUE(written(sent));
  ASSERT_TRUE(counted(reached, kRuns));
  EXPECT_TRUE(lane.target_is_right());
}

KVRAIL_CONFORMANCE_TWO_PROCESSES(StoppedPeer);

}  // namespace
}  // namespace kvrail

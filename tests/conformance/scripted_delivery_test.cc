#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "conformance/scripted_fixture.h"

namespace kvrail {
namespace {

class ScriptedOrder : public ScriptedTest {};

// Far out of order, over several rails, both ways, with little credit.
TEST_P(ScriptedOrder, MakesNoDifference) {
  constexpr std::uint64_t kMiB = 1024 * 1024;
  auto options = engine_options(GetParam());
  options.device_groups[0].nics = {"scripted0", "scripted1", "scripted2", "scripted3"};
  options.receive_credit = 16;
  FabricPair pair(GetParam(), options, options);
  std::mt19937_64 random(31);
  for (const char* text : {"reorder window=64", "delay max_us=2000",
                           "reorder window=7 seed=3; delay min_us=50 max_us=500; refuse every=5"}) {
    SCOPED_TRACE(text);
    ScriptInForce script(text);
    std::vector<FabricLane> lanes;
    std::vector<std::pair<CounterOutcome, std::uint64_t>> reached;
    std::vector<WriteOutcome> sent;
    for (std::uint64_t i = 0; i < 6; ++i) {
      lanes.push_back(i % 2 == 0 ? pair.lane_to_other({kMiB, 2 * kMiB, {}, {}}, i)
                                 : pair.lane_to_local({kMiB, 2 * kMiB, {}, {}}, i));
      auto runs = random_runs(random, kMiB, 2 * kMiB, RunShape::kMixed, {.max_units = 5});
      const std::uint64_t units = units_of(runs);
      lanes.back().note(runs);
      const CounterId counter = lanes.back().take_counter();
      reached.emplace_back(lanes.back().expect(counter, units), units);
      sent.push_back(lanes.back().submit(counter, std::move(runs)));
    }
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      ASSERT_TRUE(written(sent[i]));
      ASSERT_TRUE(counted(reached[i].first, reached[i].second));
      EXPECT_TRUE(lanes[i].target_is_right());
    }
    EXPECT_EQ(script.count(Count::kOverruns), 0U);
  }
  EXPECT_TRUE(pair.no_errors());
}

KVRAIL_SCRIPTED(ScriptedOrder);

class ScriptedLosses : public ScriptedTest {
 protected:
  static constexpr std::size_t kWrites = 12;

  FabricPair pair_{GetParam()};
  FabricLane lane_ = pair_.lane_to_other(size_for(kWrites));
  const CounterId counter_ = lane_.take_counter();

  std::uint64_t arrived() { return lane_.peek(counter_).units_arrived; }
};

// All grants that could go on: the sender has no credit left, and its ring brings the last again.
TEST_P(ScriptedLosses, LostGrantsAreMadeUpFor) {
  auto options = engine_options(GetParam());
  options.receive_credit = 2;
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other(size_for(kWrites));
  ScriptInForce script("lose of=injects at=2 count=4");
  ASSERT_TRUE(lane.transfer(writes(kWrites)));
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_EQ(script.count(Count::kLost), 4U);
  EXPECT_TRUE(pair.no_errors());
}

// The sender is told that all is well; the count is not, and what came is where it belongs.
TEST_P(ScriptedLosses, ALostWriteIsAMissingCount) {
  const auto reached = lane_.expect(counter_, kWrites);
  ScriptInForce script("lose at=4");
  lane_.note(without(writes(kWrites), 3));
  ASSERT_TRUE(written(lane_.submit(counter_, writes(kWrites))));
  EXPECT_EQ(script.count(Count::kLost), 1U);
  ASSERT_TRUE(poll_until([&] { return arrived() == kWrites - 1; }));
  EXPECT_TRUE(lane_.target_is_right());
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(50),
                        [&] { return reached->calls() == 0 && arrived() == kWrites - 1; }));
  EXPECT_TRUE(pair_.no_errors());
  ASSERT_TRUE(pair_.connection().close());
  EXPECT_EQ(reached->wait()->status.code(), ErrorCode::kLinkClosed);
  EXPECT_EQ(reached->calls(), 1);
}

TEST_P(ScriptedLosses, ADroppedImmediateIsAMissingCount) {
  const auto reached = lane_.expect(counter_, kWrites);
  ScriptInForce script("drop at=9");
  lane_.note(writes(kWrites));
  ASSERT_TRUE(written(lane_.submit(counter_, writes(kWrites))));
  EXPECT_EQ(script.count(Count::kDropped), 1U);
  ASSERT_TRUE(poll_until([&] { return arrived() == kWrites - 1; }));
  EXPECT_TRUE(lane_.target_is_right());
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(50), [&] { return reached->calls() == 0; }));
  ASSERT_TRUE(pair_.connection().close());
  EXPECT_EQ(reached->wait()->status.code(), ErrorCode::kLinkClosed);
}

// The submission waits for it, as something may still read the source; closing ends the wait.
TEST_P(ScriptedLosses, ADroppedCompletionIsAnOpenSubmission) {
  const auto reached = lane_.expect(counter_, kWrites);
  ScriptInForce script("drop what=completion at=2");
  const auto sent = lane_.submit(counter_, writes(kWrites));
  ASSERT_TRUE(counted(reached, kWrites));
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(50), [&] { return sent->calls() == 0; }));
  ASSERT_TRUE(pair_.connection().close());
  const auto result = sent->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kLinkClosed);
  EXPECT_EQ(sent->calls(), 1);
}

TEST_P(ScriptedLosses, ADuplicatedImmediateIsAnErrorOfThePeer) {
  ScriptInForce script("duplicate at=" + std::to_string(kWrites));
  ASSERT_TRUE(written(lane_.submit(counter_, writes(kWrites))));
  ASSERT_TRUE(poll_until([&] { return arrived() == kWrites + 1; }));
  // Expected late, it is seen in time.
  const auto reached = lane_.expect(counter_, kWrites);
  const auto result = reached->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kUnitsExceeded);
  EXPECT_EQ(result->report.units_arrived, kWrites + 1);
  EXPECT_TRUE(poll_until(
      [&] { return has_error(pair_.connection().acceptor(), ErrorCode::kUnitsExceeded); }));
  EXPECT_EQ(reached->calls(), 1);
}

// After the last write that was expected: reached once, and the peer's fault is told.
TEST_P(ScriptedLosses, ADuplicateThatComesLateIsToldToo) {
  const auto reached = lane_.expect(counter_, kWrites);
  ScriptInForce script("duplicate at=" + std::to_string(kWrites));
  lane_.note(writes(kWrites));
  ASSERT_TRUE(written(lane_.submit(counter_, writes(kWrites))));
  ASSERT_TRUE(reached->wait().has_value());
  EXPECT_TRUE(poll_until(
      [&] { return has_error(pair_.connection().acceptor(), ErrorCode::kUnitsExceeded); }));
  EXPECT_EQ(reached->calls(), 1);
  EXPECT_TRUE(lane_.target_is_right());
}

// A completion that was reported already belongs to no write.
TEST_P(ScriptedLosses, ADuplicatedCompletionIsIgnored) {
  ScriptInForce script("duplicate what=completion at=1");
  const auto reached = lane_.expect(counter_, 1);
  const auto sent = lane_.submit(counter_, writes(1));
  ASSERT_TRUE(written(sent));
  ASSERT_TRUE(counted(reached, 1));
  EXPECT_EQ(script.count(Count::kDuplicated), 1U);
  script.change("");
  EXPECT_TRUE(lane_.works());
  EXPECT_EQ(sent->calls(), 1);
  EXPECT_EQ(peer_stats(pair_.local(), pair_.connection().initiator().peer).writes_completed,
            peer_stats(pair_.local(), pair_.connection().initiator().peer).writes_posted);
  EXPECT_TRUE(pair_.no_errors());
}

KVRAIL_SCRIPTED(ScriptedLosses);

class ScriptedQueues : public ScriptedTest {
 protected:
  static TransferEngineOptions options() {
    auto options = engine_options(GetParam());
    options.receive_credit = 64;
    return options;
  }
  // Keeps the worker of the target from reading its queues.
  static CounterCallback stall(CounterOutcome outcome, std::chrono::milliseconds time) {
    return [outcome, time](const Status& status, const CounterReport& report) {
      std::this_thread::sleep_for(time);
      outcome->report({status, report});
    };
  }
};

// The queue's size is real, and its reader is away for a while in the middle.
TEST_P(ScriptedQueues, NeverOverrunWithCredit) {
  constexpr std::size_t kMany = scaled(10'000);
  FabricPair pair(GetParam(), options(), options());
  auto lane = pair.lane_to_other(size_for(kMany));
  script_.change("reorder window=16; delay max_us=100");
  const CounterId first = lane.take_counter();
  const CounterId second = lane.take_counter();
  const auto stalled = make_outcome<CounterResult>();
  const FabricRoute& route = lane.route();
  route.receiver.expect(route.sender_at_receiver, {}, first, kMany / 2,
                        stall(stalled, std::chrono::milliseconds(300)));
  const auto reached = lane.expect(second, kMany - kMany / 2);
  auto runs = writes(kMany);
  lane.note(runs);
  const std::vector<WriteRun> rest(runs.begin() + kMany / 2, runs.end());
  runs.resize(kMany / 2);
  ASSERT_TRUE(written(lane.submit(first, runs)));
  ASSERT_TRUE(written(lane.submit(second, rest)));
  ASSERT_TRUE(counted(stalled, kMany / 2));
  ASSERT_TRUE(counted(reached, kMany - kMany / 2));
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_EQ(script_.count(Count::kOverruns), 0U);
  EXPECT_LE(peer_stats(pair.local(), pair.connection().initiator().peer).max_immediates_outstanding,
            64U);
  EXPECT_TRUE(pair.no_errors());
}

// A queue that is shorter than it was asked to be: both sides are told, and nothing hangs.
TEST_P(ScriptedQueues, AnOverrunIsReported) {
  constexpr std::size_t kMany = 200;
  FabricPair pair(GetParam(), options(), options());
  auto lane = pair.lane_to_other(size_for(kMany));
  ASSERT_TRUE(lane.works());
  const CounterId first = lane.take_counter();
  const CounterId counter = lane.take_counter();
  const FabricRoute& route = lane.route();
  const auto stalled = make_outcome<CounterResult>();
  route.receiver.expect(route.sender_at_receiver, {}, first, 1,
                        stall(stalled, std::chrono::milliseconds(200)));
  const auto reached = lane.expect(counter, kMany);
  script_.change("queue entries=8");
  const auto opening = lane.submit(first, writes(1));
  const auto sent = lane.submit(counter, writes(kMany));
  EXPECT_TRUE(poll_until([&] { return script_.count(Count::kOverruns) > 0; }));
  EXPECT_TRUE(poll_until([&] {
    return has_error(pair.connection().acceptor(), ErrorCode::kFabric) ||
           has_error(pair.connection().initiator(), ErrorCode::kFabric);
  }));
  EXPECT_EQ(reached->calls(), 0);
  ASSERT_TRUE(pair.connection().close());
  EXPECT_FALSE(sent->wait()->status.ok());
  EXPECT_FALSE(reached->wait()->status.ok());
  EXPECT_EQ(sent->calls(), 1);
  EXPECT_EQ(opening->calls(), 1);
}

KVRAIL_SCRIPTED_ONE_PROCESS(ScriptedQueues);

}  // namespace
}  // namespace kvrail

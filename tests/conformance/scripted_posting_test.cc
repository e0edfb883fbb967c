#include <cstring>
#include <string>

#include "conformance/scripted_fixture.h"

namespace kvrail {
namespace {

class ScriptedRefusals : public ScriptedTest {
 protected:
  static constexpr std::size_t kWrites = 20;

  // Sends kWrites writes; the provider takes each once, whatever it refuses in between.
  void send_with(const std::string& text, std::uint64_t least_refused) {
    SCOPED_TRACE(text);
    const LinkStats before = stats();
    ScriptInForce script(text);
    lane_.source().fill(++seed_);
    const auto runs = writes(kWrites);
    ASSERT_TRUE(lane_.transfer(runs));
    EXPECT_TRUE(lane_.target_is_right());
    EXPECT_EQ(script.count(Count::kWritesPosted), kWrites);
    EXPECT_GE(script.count(Count::kRefused), least_refused);
    const LinkStats after = stats();
    EXPECT_EQ(after.writes_posted - before.writes_posted, kWrites);
    EXPECT_EQ(after.writes_completed - before.writes_completed, kWrites);
    EXPECT_EQ(after.eagain - before.eagain, script.count(Count::kRefused));
  }
  LinkStats stats() { return peer_stats(pair_.local(), pair_.connection().initiator().peer); }

  FabricPair pair_{GetParam()};
  FabricLane lane_ = pair_.lane_to_other(size_for(kWrites));
  std::uint64_t seed_ = 0;
};

TEST_P(ScriptedRefusals, AtEveryPosition) {
  for (std::size_t at = 1; at <= kWrites; ++at) {
    send_with("refuse at=" + std::to_string(at), 1);
  }
  EXPECT_TRUE(pair_.no_errors());
}

TEST_P(ScriptedRefusals, AgainAndAgain) {
  send_with("refuse every=2", kWrites - 1);
  send_with("refuse at=5 count=50", 50);
  send_with("reorder window=8; delay max_us=200; refuse every=3", kWrites / 3);
  EXPECT_TRUE(pair_.no_errors());
}

// What grants credit is refused too: it is sent again, and nobody waits for ever.
TEST_P(ScriptedRefusals, OfGrants) {
  constexpr std::size_t kMany = 200;
  auto options = engine_options(GetParam());
  options.receive_credit = 2;
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other(size_for(kMany));
  ScriptInForce script("refuse of=injects every=2");
  ASSERT_TRUE(lane.transfer(writes(kMany)));
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_GT(script.count(Count::kRefused), 0U);
  EXPECT_TRUE(pair.no_errors());
}

KVRAIL_SCRIPTED(ScriptedRefusals);

class ScriptedFailures : public ScriptedTest {
 protected:
  static constexpr std::size_t kWrites = 16;
  static constexpr std::byte kGarbage{0xEE};

  // The n-th write of a submission fails while others are under way. The submission fails once, and
  // when it has, its source belongs to its owner again.
  void fail_at(std::size_t n, const std::string& when) {
    SCOPED_TRACE(testing::Message() << "write " << n << " fails, " << when);
    auto options = engine_options(GetParam());
    options.queue_depth = 6;  // some are posted when it fails, some are not
    FabricPair pair(GetParam(), options, options);
    auto lane = pair.lane_to_other(size_for(kWrites));
    std::vector<std::byte> original(lane.source().bytes().begin(), lane.source().bytes().end());
    const CounterId counter = lane.take_counter();
    const auto reached = lane.expect(counter, kWrites);
    ScriptInForce script("delay max_us=3000; fail at=" + std::to_string(n) + " when=" + when);
    const auto sent = make_outcome<WriteResult>();
    ASSERT_TRUE(pair.local()
                    .submit(pair.connection().initiator().peer, lane.list(counter, writes(kWrites)),
                            FullQueue::kBlock,
                            [&](const Status& status, const WriteReport& report) {
                              lane.source().set(kGarbage);
                              sent->report({status, report});
                            })
                    .ok());
    const auto result = sent->wait();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->status.code(), ErrorCode::kFabric) << result->status.text();
    EXPECT_NE(result->status.text().find("scripted0"), std::string::npos) << result->status.text();
    const LinkStats stats = peer_stats(pair.local(), pair.connection().initiator().peer);
    EXPECT_EQ(stats.writes_failed, 1U);
    EXPECT_EQ(stats.writes_completed + 1, stats.writes_posted);
    EXPECT_TRUE(has_error(pair.connection().initiator(), ErrorCode::kFabric));
    EXPECT_EQ(script.count(Count::kFailed), 1U);

    // What landed is counted, and nothing else.
    const std::uint64_t landed = stats.writes_posted - (when == "before" ? 1 : 0);
    EXPECT_TRUE(poll_until([&] { return lane.peek(counter).units_arrived == landed; }));
    ASSERT_TRUE(pair.connection().close());
    ASSERT_TRUE(reached->wait().has_value());
    EXPECT_EQ(reached->wait()->status.ok(), landed == kWrites);
    EXPECT_EQ(sent->calls(), 1);
    EXPECT_EQ(reached->calls(), 1);
    std::size_t right = 0;
    for (const WriteRun& run : writes(kWrites)) {
      const auto there = lane.target().bytes().subspan(run.target_offset, run.size_bytes);
      const auto whole = std::span(original).subspan(run.source_offset, run.size_bytes);
      const std::vector<std::byte> untouched(run.size_bytes, kCanary);
      const bool is_right = bool(same_bytes(whole, there));
      EXPECT_TRUE(is_right || same_bytes(untouched, there));
      right += is_right ? 1 : 0;
    }
    EXPECT_EQ(right, landed);
  }
};

TEST_P(ScriptedFailures, BeforeItLanded) {
  for (const std::size_t n : {1, 2, 7, 15, 16}) fail_at(n, "before");
}
TEST_P(ScriptedFailures, AfterItLanded) {
  for (const std::size_t n : {1, 2, 7, 15, 16}) fail_at(n, "after");
}

// No submission is told of it, so the peer's owner is.
TEST_P(ScriptedFailures, OfAGrant) {
  auto options = engine_options(GetParam());
  options.receive_credit = 2;
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other(size_for(kWrites));
  const CounterId counter = lane.take_counter();
  ScriptInForce script("fail of=injects at=1");
  const auto sent = lane.submit(counter, writes(kWrites));
  EXPECT_TRUE(
      poll_until([&] { return has_error(pair.connection().acceptor(), ErrorCode::kFabric); }));
  ASSERT_TRUE(pair.connection().close());
  ASSERT_TRUE(sent->wait().has_value());
  EXPECT_EQ(sent->calls(), 1);
}

// The target has taken its memory back, or has closed its links and the news is under way.
TEST_P(ScriptedFailures, WhatMayNotLand) {
  for (const bool closes : {false, true}) {
    SCOPED_TRACE(closes ? "closed" : "deregistered");
    FabricPair pair(GetParam());
    auto lane = pair.lane_to_other(size_for(kWrites));
    ASSERT_TRUE(lane.works());
    const CounterId counter = lane.take_counter();
    if (closes) {
      ASSERT_TRUE(close_side(pair.connection().acceptor()));
    } else {
      pair.other().deregister(lane.target_region().id);
    }
    const auto sent = lane.submit(counter, writes(kWrites));
    ASSERT_TRUE(sent->wait().has_value());
    EXPECT_EQ(sent->wait()->status.code(), ErrorCode::kFabric);
    EXPECT_TRUE(lane.target_is_right());
    EXPECT_TRUE(has_error(pair.connection().initiator(), ErrorCode::kFabric));
    if (!closes) {
      EXPECT_EQ(lane.peek(counter).units_arrived, 0U);
    }
  }
}

KVRAIL_SCRIPTED(ScriptedFailures);

}  // namespace
}  // namespace kvrail

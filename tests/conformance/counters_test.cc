#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kPage = 4096;

class Counters : public FabricTest {
 protected:
  // Run `i` of a target of 64 pages, of one unit.
  static std::vector<WriteRun> page(std::uint64_t i) { return {{i * kPage, i * kPage, kPage, 1}}; }

  FabricPair pair_{GetParam()};
  FabricLane lane_ = pair_.lane_to_other({64 * kPage, 64 * kPage, {}, {}});

  LinkStats target_stats() { return peer_stats(pair_.other(), pair_.connection().acceptor().peer); }
};

TEST_P(Counters, ArrivalsBeforeExpectCount) {
  const CounterId counter = lane_.take_counter();
  for (std::uint64_t i = 0; i < 3; ++i) {
    lane_.note(page(i));
    ASSERT_TRUE(written(lane_.submit(counter, page(i))));
  }
  ASSERT_TRUE(poll_until([&] { return lane_.peek(counter).units_arrived == 3; }));
  ASSERT_TRUE(counted(lane_.expect(counter, 3), 3));
  EXPECT_TRUE(lane_.target_is_right());
}

TEST_P(Counters, ArrivalsBeforeAndAfterExpectCount) {
  const CounterId counter = lane_.take_counter();
  ASSERT_TRUE(written(lane_.submit(counter, page(0))));
  ASSERT_TRUE(poll_until([&] { return lane_.peek(counter).units_arrived == 1; }));
  const auto reached = lane_.expect(counter, 3);
  ASSERT_TRUE(written(lane_.submit(counter, page(1))));
  ASSERT_TRUE(poll_until([&] { return lane_.peek(counter).units_arrived == 2; }));
  EXPECT_EQ(reached->calls(), 0);
  ASSERT_TRUE(written(lane_.submit(counter, page(2))));
  ASSERT_TRUE(counted(reached, 3));
  for (std::uint64_t i = 0; i < 3; ++i) lane_.note(page(i));
  EXPECT_TRUE(lane_.target_is_right());
  EXPECT_EQ(reached->calls(), 1);
}

TEST_P(Counters, NothingExpectedIsReachedAtOnce) {
  const CounterId counter = lane_.take_counter();
  ASSERT_TRUE(counted(lane_.expect(counter, 0), 0));
  lane_.release(counter);
  EXPECT_TRUE(lane_.works());
}

TEST_P(Counters, MoreThanExpectedIsAnError) {
  const CounterId counter = lane_.take_counter();
  const auto reached = lane_.expect(counter, 2);
  ASSERT_TRUE(written(lane_.submit(counter, {{0, 0, kPage, 3}})));
  const auto result = reached->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kUnitsExceeded);
  EXPECT_FALSE(result->status.text().empty());
  EXPECT_EQ(result->report.units_arrived, 3U);
  EXPECT_EQ(result->report.units_expected, 2U);
}

TEST_P(Counters, MoreThanExpectedBeforeExpectIsAnError) {
  const CounterId counter = lane_.take_counter();
  ASSERT_TRUE(written(lane_.submit(counter, {{0, 0, kPage, 5}})));
  ASSERT_TRUE(poll_until([&] { return lane_.peek(counter).units_arrived == 5; }));
  const auto result = lane_.expect(counter, 4)->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kUnitsExceeded);
}

TEST_P(Counters, StraysAreDroppedAndCounted) {
  const CounterId counter = lane_.take_counter();
  lane_.release(counter);
  ASSERT_TRUE(written(lane_.submit(counter, {{0, 0, kPage, 7}})));
  // A counter that was never taken.
  ASSERT_TRUE(written(lane_.submit(CounterId(counter.value() + 3000), {{0, kPage, kPage, 2}})));
  pair_.other().wake_peer(pair_.connection().acceptor().peer);
  ASSERT_TRUE(poll_until([&] { return target_stats().stray_units == 9; }))
      << target_stats().stray_units;
  // The next user of the id starts from zero.
  std::vector<CounterId> taken;
  ASSERT_TRUE(poll_until([&] {
    taken.push_back(lane_.take_counter());
    if (taken.back() == counter) return true;
    lane_.release(taken.back());
    return false;
  })) << "the id was not used again";
  EXPECT_EQ(lane_.peek(counter).units_arrived, 0U);
  const auto reached = lane_.expect(counter, 1);
  lane_.note(page(0));
  lane_.note(std::vector<WriteRun>{{0, kPage, kPage, 2}});
  ASSERT_TRUE(written(lane_.submit(counter, page(0))));
  ASSERT_TRUE(counted(reached, 1));
  EXPECT_TRUE(lane_.target_is_right());
}

TEST_P(Counters, IdsAreReusedFirstInFirstOut) {
  std::vector<CounterId> taken;
  for (int i = 0; i < 2000; ++i) taken.push_back(lane_.take_counter());
  std::deque<CounterId> released;
  for (std::size_t i = 0; i < taken.size(); i += 2) {
    lane_.release(taken[i]);
    released.push_back(taken[i]);
  }
  // New ids may come in between; those that come back come in their order.
  const std::size_t all = released.size();
  ASSERT_TRUE(poll_until([&] {
    const CounterId next = lane_.take_counter();
    if (next == released.front()) {
      released.pop_front();
    } else {
      EXPECT_EQ(std::find(released.begin(), released.end(), next), released.end());
    }
    return released.size() <= all / 2;
  })) << all - released.size()
      << " ids were used again";
}

TEST_P(Counters, ReleaseDropsTheCallback) {
  const CounterId counter = lane_.take_counter();
  const auto reached = lane_.expect(counter, 1);
  lane_.release(counter);
  // The other counters of the peer go on.
  ASSERT_TRUE(lane_.works());
  ASSERT_TRUE(written(lane_.submit(counter, page(0))));
  ASSERT_TRUE(poll_until([&] {
    pair_.other().wake_peer(pair_.connection().acceptor().peer);
    return target_stats().stray_units == 1;
  }));
  ASSERT_TRUE(pair_.connection().close());
  EXPECT_EQ(reached->calls(), 0);
}

TEST_P(Counters, CloseEndsWhatIsExpected) {
  const CounterId counter = lane_.take_counter();
  const auto reached = lane_.expect(counter, 1);
  ASSERT_TRUE(pair_.connection().close());
  const auto result = reached->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kLinkClosed);
  EXPECT_EQ(reached->calls(), 1);
}

TEST_P(Counters, ManyAtOnce) {
  constexpr std::size_t kCounters = scaled(10'000);
  std::mt19937_64 random(8);
  std::vector<CounterId> counters;
  std::vector<CounterOutcome> reached;
  for (std::size_t i = 0; i < kCounters; ++i) {
    counters.push_back(lane_.take_counter());
    // Some are expected when their units are in.
    if (i % 3 != 0) reached.push_back(lane_.expect(counters[i], 1 + i % 5));
  }
  std::vector<std::size_t> order(kCounters);
  for (std::size_t i = 0; i < kCounters; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<WriteOutcome> sent;
  for (const std::size_t i : order) {
    const std::vector<WriteRun> runs = {
        {i % 64 * kPage, i % 64 * kPage, 64, static_cast<std::uint32_t>(1 + i % 5)}};
    sent.push_back(lane_.submit(counters[i], runs));
    lane_.note(runs);
  }
  for (const auto& outcome : sent) ASSERT_TRUE(written(outcome));
  std::size_t next = 0;
  for (std::size_t i = 0; i < kCounters; ++i) {
    const auto outcome = i % 3 == 0 ? lane_.expect(counters[i], 1 + i % 5) : reached[next++];
    ASSERT_TRUE(counted(outcome, 1 + i % 5)) << "counter " << i;
  }
  EXPECT_TRUE(lane_.target_is_right());
  EXPECT_EQ(target_stats().stray_units, 0U);
  EXPECT_TRUE(pair_.no_errors());
}

KVRAIL_CONFORMANCE(Counters);

}  // namespace
}  // namespace kvrail

#include "fabric/counter_table.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "fabric/channel_plan.h"
#include "fabric/immediate.h"
#include "kvrail/error.h"

namespace kvrail {
namespace {

using Arrival = CounterTable::Arrival;

TEST(CounterTable, CountsWhatComesBeforeAndAfterExpect) {
  CounterTable table(1000);
  const CounterId counter = table.take();
  EXPECT_EQ(table.add(counter, 3, 10), Arrival::kCounted);
  Arrival outcome = Arrival::kStray;
  EXPECT_TRUE(table.expect(
      counter, 5, [](const Status&, const CounterReport&) {}, &outcome));
  EXPECT_EQ(outcome, Arrival::kCounted);
  EXPECT_EQ(table.add(counter, 2, 20), Arrival::kReached);
  const CounterReport report = table.report(counter);
  EXPECT_EQ(report.units_arrived, 5u);
  EXPECT_EQ(report.units_expected, 5u);
  EXPECT_EQ(report.first_arrival_ns, 10);
  EXPECT_EQ(report.last_arrival_ns, 20);
}

TEST(CounterTable, IsReachedByExpectWhenAllIsThere) {
  CounterTable table(1000);
  const CounterId counter = table.take();
  table.add(counter, 5, 1);
  Arrival outcome = Arrival::kStray;
  EXPECT_TRUE(table.expect(counter, 5, {}, &outcome));
  EXPECT_EQ(outcome, Arrival::kReached);
  EXPECT_FALSE(table.expect(counter, 5, {}, &outcome));
}

TEST(CounterTable, SaysWhenMoreComesThanIsExpected) {
  CounterTable table(1000);
  const CounterId counter = table.take();
  Arrival outcome = Arrival::kStray;
  ASSERT_TRUE(table.expect(counter, 5, {}, &outcome));
  EXPECT_EQ(table.add(counter, 6, 1), Arrival::kExceeded);
}

TEST(CounterTable, DropsWhatComesOnAFreeCounter) {
  CounterTable table(1000);
  EXPECT_EQ(table.add(CounterId(0), 1, 1), Arrival::kStray);
  EXPECT_EQ(table.add(CounterId(7), 1, 1), Arrival::kStray);
  EXPECT_EQ(table.add(CounterId(1001), 1, 1), Arrival::kStray);
  const CounterId counter = table.take();
  table.release(counter);
  EXPECT_EQ(table.add(counter, 1, 1), Arrival::kStray);
}

TEST(CounterTable, TakingZeroesAndReusesFirstInFirstOut) {
  CounterTable table(4);
  std::vector<CounterId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(table.take());
  EXPECT_THROW(table.take(), Error);
  table.add(ids[2], 9, 1);
  table.release(ids[2]);
  table.release(ids[0]);
  EXPECT_EQ(table.take(), ids[2]);
  EXPECT_EQ(table.report(ids[2]).units_arrived, 0u);
  EXPECT_EQ(table.report(ids[2]).first_arrival_ns, 0);
  EXPECT_EQ(table.take(), ids[0]);
}

TEST(CounterTable, AnIdRestsBeforeItIsUsedAgain) {
  CounterTable table(100'000);
  const CounterId first = table.take();
  table.release(first);
  for (std::size_t i = 0; i < CounterTable::kReuseDistance; ++i) {
    const CounterId other = table.take();
    EXPECT_NE(other, first);
    table.release(other);
  }
  EXPECT_EQ(table.take(), first);
}

TEST(CounterTable, HoldsAsManyAsItSays) {
  const std::uint32_t most = ImmediateFormat().max_counter();
  ASSERT_EQ(most, (1u << 20) - 1);
  CounterTable table(most);
  std::set<CounterId> ids;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const CounterId id = table.take();
    EXPECT_TRUE(ids.insert(id).second);
    EXPECT_EQ(table.add(id, 1, 1), Arrival::kCounted);
  }
  EXPECT_EQ(table.taken(), 20'000u);
  for (const CounterId id : ids) EXPECT_EQ(table.report(id).units_arrived, 1u);
}

TEST(CounterTable, ListsTheExpectedAndHandsOutEachCallbackOnce) {
  CounterTable table(1000);
  const CounterId taken = table.take();
  const CounterId expected = table.take();
  int called = 0;
  Arrival outcome = Arrival::kStray;
  ASSERT_TRUE(table.expect(
      expected, 5, [&](const Status&, const CounterReport&) { ++called; }, &outcome));
  EXPECT_EQ(table.expected(), std::vector<CounterId>{expected});
  EXPECT_FALSE(table.take_callback(taken));
  table.take_callback(expected)({}, {});
  EXPECT_EQ(called, 1);
  EXPECT_FALSE(table.take_callback(expected));
  EXPECT_TRUE(table.expected().empty());
}

TEST(ImmediateFormat, KeepsTagCounterAndUnitsApart) {
  for (const std::uint32_t sources : {1u, 2u, 3u, 8u, 256u}) {
    const ImmediateFormat format(sources);
    for (const std::uint32_t tag : {0u, sources - 1}) {
      for (const std::uint32_t counter : {0u, 1u, format.max_counter()}) {
        for (const std::uint32_t units : {0u, 1u, kMaxUnitsPerWrite}) {
          const std::uint32_t immediate = format.pack(tag, CounterId(counter), units);
          EXPECT_EQ(format.tag(immediate), tag);
          EXPECT_EQ(format.counter(immediate).value(), counter);
          EXPECT_EQ(ImmediateFormat::units(immediate), units);
        }
      }
    }
  }
  EXPECT_EQ(ImmediateFormat(1).pack(0, CounterId(7), 3), 0x7003u);
}

TEST(PlanChannels, ConnectsEveryLinkAndNumbersThemOnBothSides) {
  const NodeRails source = {GroupRails(1), GroupRails(4)};
  const NodeRails target = {GroupRails(3), GroupRails(2), GroupRails(1)};
  const auto channels = plan_channels(source, target);
  std::set<std::tuple<int, int, int>> tags;
  std::set<std::tuple<int, int, int>> words;
  std::set<std::pair<int, int>> sources;
  std::set<std::pair<int, int>> targets;
  for (const ChannelPlan& channel : channels) {
    const int g = channel.source_group.value();
    const int h = channel.target_group.value();
    EXPECT_LT(channel.source_rail.value(), source[g].count());
    EXPECT_LT(channel.target_rail.value(), target[h].count());
    EXPECT_TRUE(tags.insert({h, channel.target_rail.value(), channel.tag}).second);
    EXPECT_TRUE(words.insert({g, channel.source_rail.value(), channel.grant_word}).second);
    EXPECT_LT(channel.tag, sources_of_link(channels, channel.target_group, channel.target_rail));
    EXPECT_LT(channel.grant_word,
              channels_out_of(channels, channel.source_group, channel.source_rail));
    sources.insert({g, channel.source_rail.value()});
    targets.insert({h, channel.target_rail.value()});
  }
  EXPECT_EQ(sources.size(), 5u);
  EXPECT_EQ(targets.size(), 6u);
  // Between two groups, as many as the larger one has rails.
  EXPECT_EQ(channels.size(), 3u + 2u + 1u + 4u + 4u + 4u);
}

}  // namespace
}  // namespace kvrail

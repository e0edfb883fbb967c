#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kPage = 4096;

TransferEngineOptions with_credit(const FabricConfig& config, std::uint32_t credit) {
  auto options = engine_options(config);
  options.receive_credit = credit;
  return options;
}

class Credit : public FabricTest {
 protected:
  // Single writes of one unit each, sent from here; never more under way than the target's queue
  // takes.
  void send_with_credit(std::uint32_t credit, std::size_t count, std::uint16_t rails) {
    SCOPED_TRACE(testing::Message() << "credit " << credit << ", rails " << rails);
    FabricPair pair(GetParam(), with_rails(engine_options(GetParam()), rails),
                    with_rails(with_credit(GetParam(), credit), rails));
    auto lane = pair.lane_to_other({1024 * 64, count * 128 + 64, {}, {}});
    // Large enough that a write into several ranges does not take more than a few of them.
    std::vector<WriteRun> runs;
    for (std::size_t i = 0; i < count; ++i) runs.push_back({i * 37 % 60'000, i * 128, 64, 1});
    ASSERT_TRUE(lane.transfer(runs));
    EXPECT_TRUE(lane.target_is_right());

    const LinkStats stats = peer_stats(pair.local(), pair.connection().initiator().peer);
    EXPECT_LE(stats.max_immediates_outstanding, std::uint64_t{credit} * rails);
    EXPECT_LE(stats.immediates_posted, stats.credit_granted);
    EXPECT_GT(stats.max_immediates_outstanding, 0U);
    EXPECT_GT(stats.grants_received, 0U);
    EXPECT_TRUE(pair.no_errors());
  }
};

TEST_P(Credit, SmallQueueManyWrites) { send_with_credit(64, scaled(10'000), 1); }
TEST_P(Credit, SmallQueueTwoRails) { send_with_credit(64, scaled(10'000), 2); }
TEST_P(Credit, SmallestQueue) { send_with_credit(2, scaled(2'000), 1); }

// Both sides send with a small credit at once: grants do not wait behind what they would free.
TEST_P(Credit, SmallQueuesBothWays) {
  const auto options = with_credit(GetParam(), 2);
  FabricPair pair(GetParam(), options, options);
  constexpr std::size_t kCount = scaled(2'000);
  std::vector<FabricLane> lanes;
  lanes.push_back(pair.lane_to_other({64 * kPage, kCount * 128, {}, {}}, 1));
  lanes.push_back(pair.lane_to_local({64 * kPage, kCount * 128, {}, {}}, 2));
  const auto runs = strided_runs(kCount, 64, 128, 64 * kPage);
  std::vector<CounterOutcome> reached;
  std::vector<WriteOutcome> sent;
  for (FabricLane& lane : lanes) {
    lane.note(runs);
    const CounterId counter = lane.take_counter();
    reached.push_back(lane.expect(counter, kCount));
    sent.push_back(lane.submit(counter, runs));
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    ASSERT_TRUE(written(sent[i]));
    ASSERT_TRUE(counted(reached[i], kCount));
    EXPECT_TRUE(lanes[i].target_is_right());
  }
  EXPECT_TRUE(pair.no_errors());
}

// A ring is for one device group, and the others do not know: those that are at rest read nothing,
// so that grants which are sent again for their sake must end.
TEST_P(Credit, RingsDoNotFillTheQueuesOfGroupsAtRest) {
  const auto options = with_rails(with_credit(GetParam(), 8), 1, 2);
  FabricPair pair(GetParam(), options, options);
  std::vector<FabricLane> lanes;
  for (const std::uint16_t group : {0, 1}) {
    lanes.push_back(pair.lane_to_other(
        {64 * kPage, 64 * 128, DeviceGroupId(group), DeviceGroupId(group)}, group + 1));
    ASSERT_TRUE(lanes.back().transfer(strided_runs(64, 64, 128, 64 * kPage)));
  }
  const FabricConnection::Side granter = pair.connection().acceptor();
  const std::uint64_t before = peer_stats(*granter.node, granter.peer).grants_sent;
  EXPECT_GT(before, 0U);
  for (std::size_t i = 0; i < scaled(5'000); ++i) granter.node->wake_peer(granter.peer);
  for (FabricLane& lane : lanes) EXPECT_TRUE(lane.works());
  // A few for each of the two channels that something was written through, and what works() took.
  EXPECT_LE(peer_stats(*granter.node, granter.peer).grants_sent, before + 32);
  EXPECT_TRUE(pair.no_errors());
}

KVRAIL_CONFORMANCE(Credit);

class CreditOfStoppedPeer : public FabricTest {};

// A target that reads nothing is sent what was granted and not one more.
TEST_P(CreditOfStoppedPeer, IsNeverExceeded) {
  constexpr std::uint32_t kCredit = 16;
  constexpr std::size_t kCount = 2'000;
  FabricPair pair(GetParam(), engine_options(GetParam()), with_credit(GetParam(), kCredit));
  auto lane = pair.lane_to_other({64 * kPage, kCount * 128, {}, {}});
  ASSERT_TRUE(lane.works());
  const PeerId peer = pair.connection().initiator().peer;
  const std::uint64_t granted = peer_stats(pair.local(), peer).credit_granted;
  const auto runs = strided_runs(kCount, 64, 128, 64 * kPage);
  lane.note(runs);
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, kCount);

  ASSERT_TRUE(pair.remote().process().stop());
  const auto sent = lane.submit(counter, runs);
  const auto stats = [&] { return peer_stats(pair.local(), peer); };
  ASSERT_TRUE(poll_until([&] { return stats().credit_waits > 0; }));
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(200), [&] {
    return stats().immediates_posted <= granted + kCredit && sent->calls() == 0;
  }));
  pair.remote().process().resume();
  ASSERT_TRUE(written(sent));
  ASSERT_TRUE(counted(reached, kCount));
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_LE(stats().max_immediates_outstanding, kCredit);
  EXPECT_LE(stats().immediates_posted, stats().credit_granted);
}

KVRAIL_CONFORMANCE_TWO_PROCESSES(CreditOfStoppedPeer);

}  // namespace
}  // namespace kvrail

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

class Engines : public FabricTest {};

TEST_P(Engines, AnEngineCanBeItsOwnPeer) {
  LocalNode node(engine_options(GetParam()));
  FabricConnection connection(node, node);
  EXPECT_NE(connection.initiator().peer, connection.acceptor().peer);
  FabricLane forward(connection.forward(), {kMiB, 2 * kMiB, {}, {}}, 1);
  FabricLane backward(connection.backward(), {kMiB, 2 * kMiB, {}, {}}, 2);
  std::mt19937_64 random(11);
  for (int round = 0; round < 5; ++round) {
    for (FabricLane* lane : {&forward, &backward}) {
      ASSERT_TRUE(lane->transfer(random_runs(random, kMiB, 2 * kMiB, RunShape::kMixed, {})));
      ASSERT_TRUE(lane->target_is_right());
    }
  }
  ASSERT_TRUE(connection.close());
}

// Several threads submit on several lanes in both directions.
TEST_P(Engines, ManyThreadsSubmitInBothDirections) {
  FabricPair pair(GetParam());
  constexpr int kThreads = 6;
  constexpr int kLists = scaled(80);
  std::vector<FabricLane> lanes;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    lanes.push_back(i % 2 == 0 ? pair.lane_to_other({kMiB, 2 * kMiB, {}, {}}, i)
                               : pair.lane_to_local({kMiB, 2 * kMiB, {}, {}}, i));
  }
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(100 + t));
      FabricLane& lane = lanes[static_cast<std::size_t>(t)];
      for (int i = 0; i < kLists; ++i) {
        const auto runs = random_runs(random, kMiB, 2 * kMiB, RunShape::kMixed,
                                      {.max_bytes = 128 * 1024, .max_units = 3});
        if (!lane.transfer(runs) || !lane.target_is_right()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(pair.no_errors());
}

// One engine with several peers at once, each of which is told apart.
TEST_P(Engines, SeveralPeersAtOnce) {
  LocalNode hub(engine_options(GetParam()));
  std::vector<std::unique_ptr<LocalNode>> nodes;
  std::vector<std::unique_ptr<FabricConnection>> connections;
  std::vector<FabricLane> lanes;
  for (std::uint64_t i = 0; i < 8; ++i) {
    nodes.push_back(std::make_unique<LocalNode>(engine_options(GetParam())));
    connections.push_back(std::make_unique<FabricConnection>(hub, *nodes.back()));
    lanes.emplace_back(connections.back()->forward(), FabricLane::Size{kMiB, kMiB, {}, {}}, 2 * i);
    lanes.emplace_back(connections.back()->backward(), FabricLane::Size{kMiB, kMiB, {}, {}},
                       2 * i + 1);
  }
  std::mt19937_64 random(12);
  std::vector<WriteOutcome> sent;
  std::vector<std::pair<CounterOutcome, std::uint64_t>> reached;
  for (FabricLane& lane : lanes) {
    const auto runs = random_runs(random, kMiB, kMiB, RunShape::kMixed, {});
    lane.note(runs);
    // The same id on all peers: counters are told apart by the link.
    const CounterId counter = lane.take_counter();
    reached.emplace_back(lane.expect(counter, units_of(runs)), units_of(runs));
    sent.push_back(lane.submit(counter, runs));
  }
  for (const auto& outcome : sent) ASSERT_TRUE(written(outcome));
  for (const auto& [outcome, units] : reached) ASSERT_TRUE(counted(outcome, units));
  for (const FabricLane& lane : lanes) EXPECT_TRUE(lane.target_is_right());
  EXPECT_EQ(hub.stats().peers.size(), 8U);
}

// Both sides name the peer in statistics and descriptions.
TEST_P(Engines, PeersAreDescribed) {
  FabricPair pair(GetParam());
  const PeerId peer = pair.connection().initiator().peer;
  const FabricStats stats = pair.local().stats();
  ASSERT_EQ(stats.peers.size(), 1U);
  EXPECT_EQ(stats.peers[0].peer, peer);
  EXPECT_EQ(stats.peers[0].name, "acceptor");
  EXPECT_EQ(stats.peers[0].provider, GetParam().provider);
  EXPECT_NE(pair.local().describe_peer(peer).find(GetParam().provider), std::string::npos)
      << pair.local().describe_peer(peer);
  EXPECT_NE(pair.local().describe().find(GetParam().provider), std::string::npos)
      << pair.local().describe();
  auto lane = pair.lane_to_other({kMiB, kMiB, {}, {}});
  ASSERT_TRUE(lane.works());
  const std::uint64_t bytes = peer_stats(pair.local(), peer).bytes_posted;
  ASSERT_TRUE(pair.connection().close());
  EXPECT_TRUE(pair.local().stats().peers.empty());
  EXPECT_EQ(pair.local().stats().closed_peers.bytes_posted, bytes);
}

KVRAIL_CONFORMANCE(Engines);

}  // namespace
}  // namespace kvrail

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

class Shutdown : public FabricTest {
 protected:
  std::vector<WriteRun> long_runs() { return strided_runs(4'000, 4000, 4096, kMiB); }
};

// Destroying an engine ends all that it was asked for, each once.
TEST_P(Shutdown, WithWorkOutstanding) {
  if (!survives_lost_peers(GetParam())) {
    GTEST_SKIP() << "this provider crashes when a peer goes away in mid-write";
  }
  std::mt19937_64 random(20);
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    FabricPair pair(GetParam());
    auto there = pair.lane_to_other({kMiB, 16 * kMiB, {}, {}});
    auto back = pair.lane_to_local({kMiB, 16 * kMiB, {}, {}});
    const CounterId counter = back.take_counter();
    const auto expected = back.expect(counter, 1'000'000);
    std::vector<WriteOutcome> sent;
    for (int i = 0; i < 6; ++i) {
      sent.push_back(there.submit(there.take_counter(), long_runs()));
      back.submit(counter, long_runs());
    }
    const std::size_t wait_for = random() % 4;
    ASSERT_TRUE(poll_until([&] {
      std::size_t done = 0;
      for (const auto& outcome : sent) done += outcome->calls() > 0 ? 1 : 0;
      return done >= wait_for;
    }));
    std::thread([&] { pair.local().destroy_engine(); }).join();
    for (const auto& outcome : sent) {
      ASSERT_TRUE(outcome->wait(Deadline(std::chrono::milliseconds(0))).has_value());
      EXPECT_EQ(outcome->calls(), 1);
    }
    EXPECT_EQ(expected->calls(), 1);
    // The other side is told by its control path, and goes on.
    const auto& side = pair.connection().acceptor();
    ASSERT_TRUE(close_side(side));
    pair.other().confirm_remote_closed(side.peer);
    Bystander next(GetParam(), pair.other());
    EXPECT_TRUE(next.works());
  }
}

TEST_P(Shutdown, WhileOthersSubmit) {
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other({kMiB, 16 * kMiB, {}, {}});
  const CounterId counter = lane.take_counter();
  std::vector<std::thread> threads;
  std::vector<std::vector<WriteOutcome>> sent(3);
  for (auto& outcomes : sent) {
    threads.emplace_back([&] {
      const Deadline deadline;
      while (!deadline.passed()) {
        auto outcome = make_outcome<WriteResult>();
        const Status status =
            pair.local().submit(pair.connection().initiator().peer, lane.list(counter, long_runs()),
                                FullQueue::kBlock, report_to(outcome));
        if (!status.ok()) return;
        outcomes.push_back(outcome);
      }
    });
  }
  ASSERT_TRUE(poll_until([&] { return pair.local().stats().submissions > 4; }));
  // The calls in progress end first: an engine is destroyed by its last user.
  pair.local().close_peer(pair.connection().initiator().peer, {});
  ASSERT_TRUE(close_side(pair.connection().acceptor()));
  pair.local().confirm_remote_closed(pair.connection().initiator().peer);
  for (std::thread& thread : threads) thread.join();
  pair.local().destroy_engine();
  for (const auto& outcomes : sent) {
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome->calls(), 1);
  }
}

// A peer may be in any state when the engine goes.
TEST_P(Shutdown, WithPeersInAnyState) {
  auto first = std::make_unique<LocalNode>(engine_options(GetParam()));
  LocalNode second(engine_options(GetParam()));
  const PeerOptions options{.name = "x", .ring = {}, .on_error = {}};
  FabricConnection open(*first, second);
  FabricConnection closed(*first, second);
  FabricConnection closed_here(*first, second);
  FabricConnection closed_there(*first, second);
  for (auto* connection : {&open, &closed, &closed_here, &closed_there}) {
    FabricLane lane(connection->forward(), {4096, 8192, {}, {}});
    ASSERT_TRUE(lane.works());
  }
  ASSERT_TRUE(closed.close());
  ASSERT_TRUE(close_side(closed_here.initiator()));
  ASSERT_TRUE(close_side(closed_there.acceptor()));
  // Accepted, but never confirmed; connected, but the acceptor never heard of it.
  first->accept_peer(second.offer(), options);
  const auto accepted = second.accept_peer(first->offer(), options);
  first->connect_peer(accepted.reply, options);
  first.reset();
  Bystander next(GetParam(), second);
  EXPECT_TRUE(next.works());
}

TEST_P(Shutdown, RightAfterOpening) {
  for (int i = 0; i < 10; ++i) LocalNode node(engine_options(GetParam()));
}

// close_peer may still be under way.
TEST_P(Shutdown, WhileAPeerCloses) {
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other({kMiB, 16 * kMiB, {}, {}});
  const auto sent = lane.submit(lane.take_counter(), long_runs());
  const auto closed = make_outcome<Closed>();
  pair.local().close_peer(pair.connection().initiator().peer, report_to(closed));
  pair.local().destroy_engine();
  EXPECT_EQ(sent->calls(), 1);
  EXPECT_EQ(closed->calls(), 1);
}

KVRAIL_CONFORMANCE(Shutdown);

}  // namespace
}  // namespace kvrail

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kSlotBytes = 64 * 1024;
constexpr std::size_t kSlots = 64;
constexpr std::byte kGarbage{0xEE};

// Sends slot after slot, each as one submission, until told to stop or refused. When a submission
// is done its source is overwritten with garbage: nobody may read it any more.
class SlotSender {
 public:
  explicit SlotSender(FabricLane& lane, CounterId counter, std::size_t slots)
      : lane_(lane), counter_(counter), slots_(slots) {
    thread_ = std::thread([this] { run(); });
  }
  ~SlotSender() { stop(); }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::size_t completed() const { return completed_; }
  // Every accepted submission ends once; call after stop().
  testing::AssertionResult all_ended() {
    for (const auto& outcome : outcomes_) {
      if (!outcome->wait()) return testing::AssertionFailure() << "a submission did not end";
    }
    for (const auto& outcome : outcomes_) {
      if (outcome->calls() != 1) return testing::AssertionFailure() << "one ended twice";
    }
    return testing::AssertionSuccess();
  }

 private:
  void run() {
    const auto& route = lane_.route();
    for (std::size_t i = 0; i < slots_ && !stopped_; ++i) {
      const std::uint64_t at = i % kSlots * kSlotBytes;
      // In pieces that cannot be merged.
      std::vector<WriteRun> runs;
      for (std::uint64_t piece = 0; piece < 4; ++piece) {
        const std::uint64_t offset = at + (piece * 5 % 4) * kSlotBytes / 4;
        runs.push_back({offset, offset, kSlotBytes / 4 - 8, 1});
      }
      auto outcome = make_outcome<WriteResult>();
      const bool last_use = i + kSlots >= slots_;
      const Status status = route.sender.submit(
          route.receiver_at_sender, lane_.list(counter_, std::move(runs)), FullQueue::kBlock,
          [this, outcome, at, last_use](const Status& result, const WriteReport& report) {
            if (last_use) {
              std::memset(lane_.source().data() + at, std::to_integer<int>(kGarbage), kSlotBytes);
            }
            ++completed_;
            outcome->report({result, report});
          });
      if (!status.ok()) return;
      outcomes_.push_back(std::move(outcome));
    }
  }

  FabricLane& lane_;
  const CounterId counter_;
  const std::size_t slots_;
  std::vector<WriteOutcome> outcomes_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::size_t> completed_{0};
  std::thread thread_;
};

// Every byte of the target is either a canary or what the source held when it was submitted.
testing::AssertionResult holds_no_garbage(FabricLane& lane, std::uint64_t seed) {
  std::vector<std::byte> original(lane.target().size_bytes());
  fill_pattern(original, seed);
  const auto target = lane.target().bytes();
  for (std::size_t at = 0; at < target.size(); ++at) {
    if (target[at] != kCanary && target[at] != original[at]) {
      return testing::AssertionFailure()
             << "byte " << at << " is " << std::to_integer<int>(target[at]);
    }
  }
  return lane.target().guards_intact();
}

class Fence : public FabricTest {
 protected:
  static constexpr FabricLane::Size kLaneSize{kSlots * kSlotBytes, kSlots* kSlotBytes, {}, {}};

  // Some progress, a random share of the slots, before the link is closed.
  void let_some_pass(const SlotSender& sender) {
    const std::size_t count = random_() % (kSlots / 2);
    ASSERT_TRUE(poll_until([&] { return sender.completed() >= count; }));
  }

  std::mt19937_64 random_{9};
};

// The target closes in mid-write. From its callback on nothing lands, though the sender goes on.
TEST_P(Fence, NothingLandsAfterTheTargetClosed) {
  LocalNode local(engine_options(GetParam()));
  std::unique_ptr<FabricNode> other;
  if (GetParam().two_processes()) {
    other = std::make_unique<RemoteNode>(engine_options(GetParam()));
  } else {
    other = std::make_unique<LocalNode>(engine_options(GetParam()));
  }
  Bystander bystander(GetParam(), local);
  constexpr int kRounds = 24;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    FabricConnection connection(local, *other);
    FabricLane lane(connection.forward(), kLaneSize);
    SlotSender sender(lane, lane.take_counter(), 1'000'000);
    let_some_pass(sender);
    ASSERT_TRUE(close_side(connection.acceptor()));
    lane.target().set(std::byte{0x5C});
    const std::vector<std::byte> after(lane.target().size_bytes(), std::byte{0x5C});
    // The first and the last rounds watch for long.
    const auto watch = std::chrono::milliseconds(round % (kRounds - 1) == 0 ? 300 : 20);
    EXPECT_TRUE(holds_for(watch, [&] { return bool(same_bytes(after, lane.target().bytes())); }))
        << same_bytes(after, lane.target().bytes()).message();
    // The control path tells the sender.
    ASSERT_TRUE(close_side(connection.initiator()));
    local.confirm_remote_closed(connection.initiator().peer);
    sender.stop();
    ASSERT_TRUE(sender.all_ended());
    EXPECT_TRUE(bool(same_bytes(after, lane.target().bytes())));
    EXPECT_TRUE(lane.target().guards_intact());
    lane.remove();
    ASSERT_TRUE(bystander.works());
  }
}

// The target closes while the sender's first write is still connecting to it. The other links of
// the device group are polled on, and so meet whatever the provider kept of the connection.
TEST_P(Fence, TheTargetClosesWhileThePeerConnects) {
  LocalNode local(engine_options(GetParam()));
  std::unique_ptr<FabricNode> other;
  if (GetParam().two_processes()) {
    other = std::make_unique<RemoteNode>(engine_options(GetParam()));
  } else {
    other = std::make_unique<LocalNode>(engine_options(GetParam()));
  }
  Bystander bystander(GetParam(), local);
  // Each opens and closes links: fewer where that takes long.
  const int rounds = GetParam().provider == "tcp" ? scaled(400) : scaled(40);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    FabricConnection connection(local, *other);
    FabricLane lane(connection.forward(), kLaneSize);
    SlotSender sender(lane, lane.take_counter(), 1'000'000);
    // Somewhere between before the connection and the first bytes.
    const std::int64_t until = now_ns() + static_cast<std::int64_t>(random_() % 400'000);
    while (now_ns() < until) std::this_thread::yield();
    ASSERT_TRUE(close_side(connection.acceptor()));
    ASSERT_TRUE(close_side(connection.initiator()));
    local.confirm_remote_closed(connection.initiator().peer);
    sender.stop();
    ASSERT_TRUE(sender.all_ended());
    lane.remove();
    if (round % 8 == 0) {
      ASSERT_TRUE(bystander.works());
    }
  }
}

// The sender closes in mid-write: what it had counted as done or failed is never read again.
TEST_P(Fence, NothingIsReadAfterASubmissionEnded) {
  LocalNode local(engine_options(GetParam()));
  std::unique_ptr<FabricNode> other;
  if (GetParam().two_processes()) {
    other = std::make_unique<RemoteNode>(engine_options(GetParam()));
  } else {
    other = std::make_unique<LocalNode>(engine_options(GetParam()));
  }
  Bystander bystander(GetParam(), local);
  for (std::uint64_t round = 0; round < 24; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    FabricConnection connection(local, *other);
    FabricLane lane(connection.forward(), kLaneSize, round);
    SlotSender sender(lane, lane.take_counter(), kSlots);
    let_some_pass(sender);
    const auto closed = make_outcome<Closed>();
    local.close_peer(connection.initiator().peer, report_to(closed));
    sender.stop();
    // What the control path brings a little later.
    const std::chrono::microseconds delay(random_() % 2000);
    const Deadline told(std::chrono::duration_cast<std::chrono::milliseconds>(delay));
    poll_until([] { return false; }, told);
    ASSERT_TRUE(close_side(connection.acceptor()));
    local.confirm_remote_closed(connection.initiator().peer);
    ASSERT_TRUE(closed->wait().has_value());
    ASSERT_TRUE(sender.all_ended());
    EXPECT_TRUE(holds_no_garbage(lane, round));
    EXPECT_TRUE(holds_for(std::chrono::milliseconds(5),
                          [&] { return bool(holds_no_garbage(lane, round)); }));
    EXPECT_EQ(closed->calls(), 1);
    lane.remove();
    ASSERT_TRUE(bystander.works());
  }
}

TEST_P(Fence, ClosingTwiceAndSubmittingAfterwards) {
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other({kSlotBytes, kSlotBytes, {}, {}});
  const CounterId counter = lane.take_counter();
  ASSERT_TRUE(pair.connection().close());
  ASSERT_TRUE(pair.connection().close());
  auto outcome = make_outcome<WriteResult>();
  const Status status =
      pair.local().submit(pair.connection().initiator().peer, lane.list(counter, {{0, 0, 64, 1}}),
                          FullQueue::kBlock, report_to(outcome));
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(outcome->calls(), 0);
  pair.local().close_peer(pair.connection().initiator().peer, {});
}

KVRAIL_CONFORMANCE(Fence);

}  // namespace
}  // namespace kvrail

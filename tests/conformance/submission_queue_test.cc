#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

TransferEngineOptions short_queue(const FabricConfig& config, std::uint32_t length) {
  auto options = engine_options(config);
  options.submission_queue_length = length;
  return options;
}

class SubmissionQueue : public FabricTest {
 protected:
  static constexpr std::uint64_t kRegionBytes = 8 * kMiB;

  // Submissions of 8 MiB that a worker needs a while for, until one is refused.
  void fill_until_refused(FabricLane& lane, CounterId counter,
                          std::vector<WriteOutcome>* accepted) {
    const Deadline deadline;
    while (!deadline.passed()) {
      auto outcome = make_outcome<WriteResult>();
      const Status status =
          lane.route().sender.submit(lane.route().receiver_at_sender, lane.list(counter, runs_),
                                     FullQueue::kRefuse, report_to(outcome));
      if (!status.ok()) {
        EXPECT_EQ(status.code(), ErrorCode::kQueueFull) << status.text();
        EXPECT_FALSE(status.text().empty());
        refused_.push_back(outcome);
        return;
      }
      accepted->push_back(outcome);
    }
    FAIL() << "nothing was refused";
  }
  void expect_refused_never_called() {
    for (const auto& outcome : refused_) EXPECT_EQ(outcome->calls(), 0);
  }

  const std::vector<WriteRun> runs_ = strided_runs(2048, 4096 - 8, 4096, kRegionBytes);
  std::vector<WriteOutcome> refused_;
};

TEST_P(SubmissionQueue, RefusesWhenFull) {
  const auto options = short_queue(GetParam(), 2);
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other({kRegionBytes, kRegionBytes, {}, {}});
  lane.note(runs_);
  const CounterId counter = lane.take_counter();
  std::vector<WriteOutcome> accepted;
  for (int i = 0; i < 5; ++i) {
    ASSERT_NO_FATAL_FAILURE(fill_until_refused(lane, counter, &accepted));
  }
  const auto reached = lane.expect(counter, accepted.size() * runs_.size());
  for (const auto& outcome : accepted) ASSERT_TRUE(written(outcome));
  ASSERT_TRUE(counted(reached, accepted.size() * runs_.size()));
  EXPECT_TRUE(lane.target_is_right());
  for (const auto& outcome : accepted) EXPECT_EQ(outcome->calls(), 1);
  expect_refused_never_called();
}

TEST_P(SubmissionQueue, BlocksUntilThereIsRoom) {
  const auto options = short_queue(GetParam(), 1);
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other({kRegionBytes, kRegionBytes, {}, {}});
  lane.note(runs_);
  const CounterId counter = lane.take_counter();
  constexpr std::size_t kCount = 12;
  const auto reached = lane.expect(counter, kCount * runs_.size());
  std::vector<WriteOutcome> sent;
  for (std::size_t i = 0; i < kCount; ++i) sent.push_back(lane.submit(counter, runs_));
  for (const auto& outcome : sent) ASSERT_TRUE(written(outcome));
  ASSERT_TRUE(counted(reached, kCount * runs_.size()));
  EXPECT_TRUE(lane.target_is_right());
}

// A chain of submissions, each made in the callback of the one before.
TEST_P(SubmissionQueue, CallbacksMaySubmit) {
  FabricPair pair(GetParam(), short_queue(GetParam(), 4), engine_options(GetParam()));
  constexpr int kLength = 200;
  auto lane = pair.lane_to_other({65536, kLength * 256, {}, {}});
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, kLength);
  auto last = make_outcome<WriteResult>();
  std::atomic<int> refused{0};
  std::function<void(int)> submit = [&](int i) {
    const auto at = static_cast<std::uint64_t>(i) * 256;
    const Status status = pair.local().submit(
        pair.connection().initiator().peer, lane.list(counter, {{at, at, 255, 1}}),
        FullQueue::kRefuse, [&, i](const Status& result, const WriteReport& report) {
          if (result.ok() && i + 1 < kLength) {
            submit(i + 1);
          } else {
            last->report({result, report});
          }
        });
    if (!status.ok()) {
      ++refused;
      last->report({status, {}});
    }
  };
  for (std::uint64_t i = 0; i < kLength; ++i) {
    lane.note(std::vector<WriteRun>{{i * 256, i * 256, 255, 1}});
  }
  submit(0);
  ASSERT_TRUE(written(last));
  ASSERT_TRUE(counted(reached, kLength));
  EXPECT_EQ(refused, 0);
  EXPECT_TRUE(lane.target_is_right());
}

// Each submission is made in the callback of one to another peer: its times follow each other, and
// those of the one before.
TEST_P(SubmissionQueue, TimesOfAChainOverTwoPeersFollowEachOther) {
  FabricPair pair(GetParam());
  LocalNode third(engine_options(GetParam()));
  FabricConnection connection(pair.local(), third);
  constexpr int kLength = 400;
  constexpr std::uint64_t kBytes = kLength * 256;
  auto lane = pair.lane_to_other({kBytes, kBytes, {}, {}});
  FabricLane other(connection.forward(), {kBytes, kBytes, {}, {}}, 2);
  const std::array<FabricLane*, 2> lanes = {&lane, &other};
  const std::array<CounterId, 2> counters = {lane.take_counter(), other.take_counter()};
  const std::array reached = {lane.expect(counters[0], kLength / 2),
                              other.expect(counters[1], kLength / 2)};
  for (std::uint64_t i = 0; i < kLength; ++i) {
    lanes[i % 2]->note(std::vector<WriteRun>{{i * 256, i * 256, 255, 1}});
  }
  auto last = make_outcome<WriteResult>();
  std::atomic<int> disordered{0};
  std::int64_t before_ns = 0;  // of the chain, whose callbacks are one thread's
  std::function<void(int)> submit = [&](int i) {
    const auto at = static_cast<std::uint64_t>(i) * 256;
    const FabricLane& next = *lanes[i % 2];
    const Status status = next.route().sender.submit(
        next.route().receiver_at_sender, next.list(counters[i % 2], {{at, at, 255, 1}}),
        FullQueue::kRefuse, [&, i](const Status& result, const WriteReport& report) {
          if (report.submitted_ns < before_ns || report.first_post_ns < report.submitted_ns ||
              report.last_completion_ns < report.first_post_ns) {
            ++disordered;
          }
          before_ns = report.last_completion_ns;
          if (result.ok() && i + 1 < kLength) {
            submit(i + 1);
          } else {
            last->report({result, report});
          }
        });
    if (!status.ok()) last->report({status, {}});
  };
  submit(0);
  ASSERT_TRUE(written(last));
  for (const auto& all : reached) ASSERT_TRUE(counted(all, kLength / 2));
  EXPECT_EQ(disordered, 0);
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_TRUE(other.target_is_right());
}

// The library's own thread is never made to wait by a callback that asks for room.
TEST_P(SubmissionQueue, CallbacksAreRefusedWhenFull) {
  FabricPair pair(GetParam(), short_queue(GetParam(), 1), engine_options(GetParam()));
  auto lane = pair.lane_to_other({kRegionBytes, kRegionBytes, {}, {}});
  const CounterId counter = lane.take_counter();
  auto first = make_outcome<WriteResult>();
  std::mutex mutex;
  std::vector<WriteOutcome> accepted;
  bool was_refused = false;
  const Status status =
      pair.local().submit(pair.connection().initiator().peer, lane.list(counter, runs_),
                          FullQueue::kRefuse, [&](const Status& result, const WriteReport& report) {
                            for (int i = 0; i < 100 && !was_refused; ++i) {
                              auto outcome = make_outcome<WriteResult>();
                              const Status next = pair.local().submit(
                                  pair.connection().initiator().peer, lane.list(counter, runs_),
                                  FullQueue::kRefuse, report_to(outcome));
                              const std::lock_guard lock(mutex);
                              if (next.ok()) {
                                accepted.push_back(outcome);
                              } else {
                                was_refused = next.code() == ErrorCode::kQueueFull;
                              }
                            }
                            first->report({result, report});
                          });
  ASSERT_TRUE(status.ok());
  ASSERT_TRUE(written(first));
  EXPECT_TRUE(was_refused);
  const std::lock_guard lock(mutex);
  for (const auto& outcome : accepted) ASSERT_TRUE(written(outcome));
}

KVRAIL_CONFORMANCE(SubmissionQueue);

class SubmissionQueueOfStoppedPeer : public SubmissionQueue {};

TEST_P(SubmissionQueueOfStoppedPeer, ABlockedCallReturnsWhenThereIsRoomAgain) {
  auto options = short_queue(GetParam(), 2);
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other({kRegionBytes, kRegionBytes, {}, {}});
  lane.note(runs_);
  const CounterId counter = lane.take_counter();
  ASSERT_TRUE(pair.remote().process().stop());
  std::vector<WriteOutcome> accepted;
  ASSERT_NO_FATAL_FAILURE(fill_until_refused(lane, counter, &accepted));
  // What the socket still takes is not the point: refused again and again, the queue is full.
  ASSERT_TRUE(poll_until([&] {
    const std::size_t before = accepted.size();
    fill_until_refused(lane, counter, &accepted);
    return accepted.size() == before;
  }));
  std::atomic<bool> returned{false};
  WriteOutcome blocked;
  std::thread submitter([&] {
    blocked = lane.submit(counter, runs_);
    returned = true;
  });
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(200), [&] { return !returned; }));
  pair.remote().process().resume();
  submitter.join();
  accepted.push_back(blocked);
  const auto reached = lane.expect(counter, accepted.size() * runs_.size());
  for (const auto& outcome : accepted) ASSERT_TRUE(written(outcome));
  ASSERT_TRUE(counted(reached, accepted.size() * runs_.size()));
  EXPECT_TRUE(lane.target_is_right());
  expect_refused_never_called();
}

// A blocked call ends with the link.
TEST_P(SubmissionQueueOfStoppedPeer, ABlockedCallEndsWithTheLink) {
  auto options = short_queue(GetParam(), 2);
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other({kRegionBytes, kRegionBytes, {}, {}});
  const CounterId counter = lane.take_counter();
  ASSERT_TRUE(pair.remote().process().stop());
  std::vector<WriteOutcome> accepted;
  ASSERT_TRUE(poll_until([&] {
    const std::size_t before = accepted.size();
    fill_until_refused(lane, counter, &accepted);
    return accepted.size() == before;
  }));
  std::atomic<bool> returned{false};
  std::thread submitter([&] {
    // Accepted or not, it must return.
    const Status status =
        pair.local().submit(pair.connection().initiator().peer, lane.list(counter, runs_),
                            FullQueue::kBlock, [](const Status&, const WriteReport&) {});
    returned = true;
  });
  const PeerId peer = pair.connection().initiator().peer;
  pair.local().close_peer(peer, {});
  pair.remote().kill();
  pair.local().confirm_remote_closed(peer);
  EXPECT_TRUE(poll_until([&] { return returned.load(); }));
  submitter.join();
  for (const auto& outcome : accepted) ASSERT_TRUE(outcome->wait().has_value());
}

KVRAIL_CONFORMANCE_TWO_PROCESSES(SubmissionQueueOfStoppedPeer);

}  // namespace
}  // namespace kvrail

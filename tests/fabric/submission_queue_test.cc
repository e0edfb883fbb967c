#include "fabric/submission_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <utility>
#include <vector>

namespace kvrail {
namespace {

TEST(SubmissionQueue, RefusesWhenFullAndGivesPlacesBack) {
  SubmissionQueue queue(2);
  auto first = queue.enter(FullQueue::kRefuse);
  auto second = queue.enter(FullQueue::kRefuse);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(queue.enter(FullQueue::kRefuse));
  first->leave();
  first->leave();  // a place is left once
  EXPECT_TRUE(queue.enter(FullQueue::kRefuse));
  { const SubmissionQueue::Place moved = std::move(*second); }
  EXPECT_TRUE(queue.enter(FullQueue::kRefuse));
}

TEST(SubmissionQueue, BlocksUntilThereIsRoom) {
  SubmissionQueue queue(1);
  auto place = queue.enter(FullQueue::kBlock);
  auto waiting =
      std::async(std::launch::async, [&] { return queue.enter(FullQueue::kBlock).has_value(); });
  place->leave();
  EXPECT_TRUE(waiting.get());
}

// Nobody waits for ever, and nobody has a place too many.
TEST(SubmissionQueue, ManyThreadsShareFewPlaces) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 20'000;
  SubmissionQueue queue(2);
  std::atomic<int> inside{0};
  std::atomic<bool> too_many{false};
  std::vector<std::future<void>> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(std::async(std::launch::async, [&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        auto place = queue.enter(FullQueue::kBlock);
        ASSERT_TRUE(place);
        if (++inside > 2) too_many = true;
        --inside;
      }
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_FALSE(too_many);
}

TEST(SubmissionQueue, ClosingRefusesThoseWhoWait) {
  SubmissionQueue queue(1);
  const auto place = queue.enter(FullQueue::kBlock);
  auto waiting =
      std::async(std::launch::async, [&] { return queue.enter(FullQueue::kBlock).has_value(); });
  queue.close();
  EXPECT_FALSE(waiting.get());
  EXPECT_TRUE(queue.is_closed());
  EXPECT_FALSE(queue.enter(FullQueue::kRefuse));
}

}  // namespace
}  // namespace kvrail

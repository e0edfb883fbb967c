#include "fabric/submission_queue.h"

#include <gtest/gtest.h>

#include <future>
#include <utility>

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

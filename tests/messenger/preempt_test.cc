#include <numeric>

#include "messenger/messenger_pair.h"

// Requests whose source pages the prefill engine takes back, and that it runs again.

namespace kvrail {
namespace {

using ::testing::IsEmpty;

class PreemptTest : public ::testing::TestWithParam<PairShape> {
 protected:
  RequestId bound_request() {
    const auto bound = pair_.bind("a", source_, target_);
    asked_ = bound.asked;
    return bound.id;
  }
  void expect_preempted(RequestId id) {
    const auto released = prefill_.take<PagesReleasedEvent>();
    EXPECT_EQ(released.request, id);
    EXPECT_EQ(released.result.code(), ErrorCode::kPreempted);
    EXPECT_FALSE(decode_.has<FailedEvent>());
  }
  std::uint64_t sent_bytes() {
    const auto by_rank = prefill_.messenger().stats().bytes_sent_by_rank;
    return std::accumulate(by_rank.begin(), by_rank.end(), std::uint64_t{0});
  }

  MessengerPair pair_{GetParam().provider, GetParam()};
  KvNode& prefill_ = pair_.prefill();
  KvNode& decode_ = pair_.decode();
  const TestPrompt source_ = MessengerPair::prompt(1, 30, {3, 9, 4, 21});
  const TestPrompt again_ = MessengerPair::prompt(1, 30, {8, 1, 2, 22});
  const TestPrompt target_ = MessengerPair::prompt(1, 30, {7, 2, 30, 11});
  RequestId asked_;
};

TEST_P(PreemptTest, WhatWasSentIsNotSentAgain) {
  const RequestId id = bound_request();
  pair_.run_chunks(id, source_, 0, {16});
  const std::uint64_t first_half = TransferPlan(prefill_.layout(), decode_.layout()).bytes({0, 16});
  ASSERT_TRUE(poll_until([&] { return sent_bytes() == first_half; }));
  prefill_.messenger().preempt(id);
  expect_preempted(id);
  // Others may use the pages now. Were something of the first half sent again, it would be wrong.
  const TestPrompt wrong = MessengerPair::prompt(99, 30, {8, 1, 2, 22});
  prefill_.messenger().bind_pages(id, again_.pages, 0);
  pair_.run_chunks(id, wrong, 0, {16});
  pair_.run_chunks(id, again_, 16, {29});
  pair_.finish(target_, {0, 29});
}

TEST_P(PreemptTest, StepsOfBeforeSayNothing) {
  const RequestId id = bound_request();
  const std::vector<KvNode::Chunk> chunks = {{id, &source_, {0, 29}}};
  const StepId step = prefill_.begin_step(chunks);
  prefill_.counter().start(step);
  prefill_.messenger().preempt(id);
  expect_preempted(id);
  for (std::uint32_t layer = 0; layer < prefill_.layout().layer_count; ++layer) {
    prefill_.counter().signal();
  }
  prefill_.messenger().bind_pages(id, again_.pages, 0);
  pair_.run_chunks(id, again_, 0, {7, 29});
  pair_.finish(target_, {0, 29});
}

TEST_P(PreemptTest, AgainAndAgain) {
  const RequestId id = bound_request();
  for (std::uint32_t end = 4; end < 28; end += 6) {
    pair_.run_chunks(id, source_, 0, {end});
    prefill_.messenger().preempt(id);
    expect_preempted(id);
    prefill_.messenger().preempt(id);
    prefill_.messenger().bind_pages(id, source_.pages, 0);
  }
  pair_.run_chunks(id, source_, 0, {29});
  pair_.finish(target_, {0, 29});
}

TEST_P(PreemptTest, ThePrefixThatIsCachedCountsAsComputed) {
  const RequestId id = bound_request();
  pair_.run_chunks(id, source_, 0, {10});
  prefill_.messenger().preempt(id);
  expect_preempted(id);
  prefill_.compute_all_layers(again_, {0, 20});
  prefill_.messenger().bind_pages(id, again_.pages, 20);
  pair_.run_chunks(id, again_, 20, {29});
  pair_.finish(target_, {0, 29});
}

TEST_P(PreemptTest, EndsWellIfAllWasSent) {
  const RequestId id = bound_request();
  pair_.run_chunks(id, source_, 0, {29});
  ASSERT_TRUE(poll_until([&] { return prefill_.has<PagesReleasedEvent>(); }));
  prefill_.messenger().preempt(id);
  pair_.finish(target_, {0, 29});
  EXPECT_THAT(prefill_.pending(), IsEmpty());
}

TEST_P(PreemptTest, IsCancelledWhileItHasNoPages) {
  const RequestId id = bound_request();
  pair_.run_chunks(id, source_, 0, {16});
  prefill_.messenger().preempt(id);
  expect_preempted(id);
  decode_.messenger().cancel(asked_, "the user left");
  EXPECT_EQ(prefill_.take<CancelledEvent>().request, id);
  EXPECT_EQ(prefill_.take<PagesReleasedEvent>().result.code(), ErrorCode::kCancelled);
  decode_.take<FailedEvent>();
  EXPECT_EQ(decode_.take<QuiescentEvent>().how, Quiescence::kCounted);
  EXPECT_THAT(prefill_.pending(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Shapes, PreemptTest, ::testing::ValuesIn(pair_shapes()), shape_name);

}  // namespace
}  // namespace kvrail

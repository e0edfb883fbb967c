#include <random>
#include <thread>

#include "messenger/messenger_pair.h"

// Requests that the decode engine gives up, at every moment of their lives.

namespace kvrail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CancelTest : public ::testing::TestWithParam<PairShape> {
 protected:
  RequestId bound_request() {
    const auto bound = pair_.bind("a", source_, target_);
    asked_ = bound.asked;
    return bound.id;
  }
  void expect_cancelled_at_decode() {
    const auto failed = decode_.take<FailedEvent>();
    EXPECT_EQ(failed.request, asked_);
    EXPECT_EQ(failed.reason.code(), ErrorCode::kCancelled);
    EXPECT_THAT(failed.reason.text(), HasSubstr("the user left"));
    EXPECT_FALSE(failed.quiescent);
    EXPECT_EQ(failed.missing.size(), decode_.layout().groups.size());
    const auto quiescent = decode_.take<QuiescentEvent>();
    EXPECT_EQ(quiescent.request, asked_);
    EXPECT_EQ(quiescent.how, Quiescence::kCounted);
  }
  void expect_cancelled_at_prefill(RequestId id) {
    const auto cancelled = prefill_.take<CancelledEvent>();
    EXPECT_EQ(cancelled.request, id);
    EXPECT_THAT(cancelled.reason.text(), HasSubstr("the user left"));
    const auto released = prefill_.take<PagesReleasedEvent>();
    EXPECT_EQ(released.request, id);
    EXPECT_EQ(released.result.code(), ErrorCode::kCancelled);
  }
  // Nothing was told beside, nothing is open, and another request works on the same pages.
  void expect_clean() {
    EXPECT_THAT(prefill_.pending(), IsEmpty());
    EXPECT_THAT(decode_.pending(), IsEmpty());
    EXPECT_EQ(prefill_.messenger().stats().requests_open, 0u);
    EXPECT_EQ(decode_.messenger().stats().requests_open, 0u);
    const TestPrompt source = MessengerPair::prompt(9, 30, {21, 3, 4, 9});
    const TestPrompt target = MessengerPair::prompt(9, 30, {2, 7, 11, 30});
    pair_.run_chunks(pair_.bind("a", source, target).id, source, 0, {29});
    decode_.take<ReadyEvent>();
    EXPECT_TRUE(prefill_.take<PagesReleasedEvent>().result.ok());
    decode_.expect(target, {0, 29});
  }

  MessengerPair pair_{GetParam().provider, GetParam()};
  KvNode& prefill_ = pair_.prefill();
  KvNode& decode_ = pair_.decode();
  const TestPrompt source_ = MessengerPair::prompt(1, 30, {3, 9, 4, 21});
  const TestPrompt target_ = MessengerPair::prompt(1, 30, {7, 2, 30, 11});
  RequestId asked_;
};

TEST_P(CancelTest, AtOnce) {
  asked_ = decode_.request(pair_.peer(), "a", target_);
  decode_.messenger().cancel(asked_, "the user left");
  expect_cancelled_at_decode();
  const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
  expect_cancelled_at_prefill(id);
  // The engine answers what it was asked before it heard.
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  prefill_.messenger().reject(id, "too late");
  expect_clean();
  EXPECT_EQ(decode_.find_fault(), "");
}

TEST_P(CancelTest, WhenItIsBound) {
  const RequestId id = bound_request();
  decode_.messenger().cancel(asked_, "the user left");
  expect_cancelled_at_decode();
  expect_cancelled_at_prefill(id);
  expect_clean();
  EXPECT_EQ(decode_.find_fault(), "");
}

TEST_P(CancelTest, InTheMiddleOfAStep) {
  const RequestId id = bound_request();
  pair_.run_chunks(id, source_, 0, {13});
  const std::vector<KvNode::Chunk> chunks = {{id, &source_, {13, 29}}};
  const StepId step = prefill_.begin_step(chunks);
  prefill_.counter().start(step);
  prefill_.compute_all_layers(source_, {13, 29});
  prefill_.counter().signal();
  decode_.messenger().cancel(asked_, "the user left");
  decode_.messenger().cancel(asked_, "the user left twice");
  expect_cancelled_at_decode();
  expect_cancelled_at_prefill(id);
  // The pass goes on; nothing of it is sent.
  for (std::uint32_t layer = 1; layer < prefill_.layout().layer_count; ++layer) {
    prefill_.counter().signal();
  }
  expect_clean();
}

TEST_P(CancelTest, WhenAllWasSent) {
  pair_.run_chunks(bound_request(), source_, 0, {29});
  EXPECT_TRUE(prefill_.take<PagesReleasedEvent>().result.ok());
  EXPECT_EQ(decode_.take<ReadyEvent>().request, asked_);
  decode_.messenger().cancel(asked_, "too late");
  decode_.messenger().cancel(RequestId(4711), "never seen");
  EXPECT_FALSE(prefill_.has<CancelledEvent>());
  decode_.expect(target_, {0, 29});
  EXPECT_EQ(decode_.find_fault(), "");
  expect_clean();
  EXPECT_EQ(decode_.find_fault(), "");
}

TEST_P(CancelTest, BothSidesAtOnce) {
  const RequestId id = bound_request();
  pair_.run_chunks(id, source_, 0, {13});
  prefill_.messenger().fail(id, "the user left");
  decode_.messenger().cancel(asked_, "the user left");
  const auto failed = decode_.take<FailedEvent>();
  EXPECT_EQ(failed.reason.code(), ErrorCode::kCancelled);
  if (!failed.quiescent) {
    EXPECT_EQ(decode_.take<QuiescentEvent>().how, Quiescence::kCounted);
  }
  EXPECT_EQ(prefill_.take<PagesReleasedEvent>().result.code(), ErrorCode::kCancelled);
  expect_clean();
}

// The pages of a cancelled request go to the next one as soon as it is quiescent.
TEST_P(CancelTest, AtAnyMomentNoByteOfItReachesTheNextRequest) {
  std::mt19937 random(7);
  std::uint32_t ready = 0;
  std::uint32_t cancelled = 0;
  for (std::uint32_t round = 1; round <= 60; ++round) {
    const TestPrompt source = MessengerPair::prompt(round, 30, {3, 9, 4, 21});
    const TestPrompt target = MessengerPair::prompt(round, 30, {7, 2, 30, 11});
    const auto [asked, id] = pair_.bind("a", source, target);
    std::thread user([&, asked = asked, delay_us = random() % 400] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(delay_us);
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      decode_.messenger().cancel(asked, "the user left");
    });
    pair_.run_chunks(id, source, 0, {5, 16});
    // Every third one is surely cancelled in time.
    if (round % 3 == 0) {
      ASSERT_TRUE(poll_until([&] { return decode_.has<FailedEvent>(); }));
    }
    pair_.run_chunks(id, source, 16, {29});
    user.join();
    const auto released = prefill_.take<PagesReleasedEvent>();
    ASSERT_TRUE(
        poll_until([&] { return decode_.has<ReadyEvent>() || decode_.has<FailedEvent>(); }));
    if (decode_.has<ReadyEvent>()) {
      decode_.take<ReadyEvent>();
      ++ready;
      decode_.expect(target, {0, 29});
      ASSERT_EQ(decode_.find_fault(), "") << round;
      continue;
    }
    if (!decode_.take<FailedEvent>().quiescent) decode_.take<QuiescentEvent>();
    if (!released.result.ok()) ++cancelled;
    // All that may have been written is overwritten by what must be there.
    decode_.compute_all_layers(target, {0, 29});
    ASSERT_EQ(decode_.find_fault(), "") << round;
  }
  RecordProperty("ready", static_cast<int>(ready));
  EXPECT_GT(cancelled, 0u);
  EXPECT_FALSE(decode_.has<ReadyEvent>());
  EXPECT_FALSE(prefill_.has<PagesReleasedEvent>());
}

TEST_P(CancelTest, ADeadlineNamesWhatIsMissing) {
  DecodeRequest request;
  request.external_id = "a";
  request.prompt_tokens = 30;
  request.pages = target_.pages;
  request.deadline_ms = 150;
  asked_ = decode_.messenger().request_prefill(pair_.peer(), request);
  const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {16});
  const StepId step = prefill_.begin_step({{id, &source_, {16, 29}}});
  prefill_.counter().start(step);
  prefill_.compute_all_layers(source_, {16, 29});
  prefill_.counter().signal();
  const auto failed = decode_.take<FailedEvent>();
  EXPECT_EQ(failed.request, asked_);
  EXPECT_EQ(failed.reason.code(), ErrorCode::kDeadline);
  EXPECT_THAT(failed.reason.text(), HasSubstr("request a was not ready within 150 ms"));
  EXPECT_THAT(failed.reason.text(), HasSubstr("device group 0 lacks "));
  EXPECT_THAT(failed.reason.text(), HasSubstr("pages 7, 2, 30, 11 of cache group"));
  const auto last = prefill_.layout().layer_count - 1;
  EXPECT_THAT(failed.reason.text(), HasSubstr("to " + std::to_string(last) + " have 16 of 29 "));
  if (!failed.quiescent) decode_.take<QuiescentEvent>();
  EXPECT_EQ(prefill_.take<CancelledEvent>().request, id);
  EXPECT_EQ(prefill_.take<PagesReleasedEvent>().result.code(), ErrorCode::kCancelled);
  for (std::uint32_t layer = 0; layer < last; ++layer) prefill_.counter().signal();
  expect_clean();
}

TEST_P(CancelTest, ADeadlineThatIsMetSaysNothing) {
  DecodeRequest request;
  request.external_id = "a";
  request.prompt_tokens = 30;
  request.pages = target_.pages;
  request.deadline_ms = 60'000;
  decode_.messenger().request_prefill(pair_.peer(), request);
  const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {29});
  pair_.finish(target_, {0, 29});
}

INSTANTIATE_TEST_SUITE_P(Shapes, CancelTest, ::testing::ValuesIn(pair_shapes()), shape_name);

}  // namespace
}  // namespace kvrail

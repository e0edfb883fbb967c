#include "messenger/messenger_pair.h"

// Steps that fail, and the requests that must fail with them, and no others.

namespace kvrail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StepFailureTest : public ::testing::TestWithParam<PairShape> {
 protected:
  RequestId bound_request(const std::string& name, const TestPrompt& source,
                          const TestPrompt& target) {
    return pair_.bind(name, source, target).id;
  }
  void run(StepId step, const std::vector<KvNode::Chunk>& chunks, int signals) {
    prefill_.counter().start(step);
    for (const KvNode::Chunk& chunk : chunks) {
      prefill_.compute_all_layers(*chunk.prompt, chunk.tokens);
    }
    for (int i = 0; i < signals; ++i) prefill_.counter().signal();
  }
  // The request ends on both sides as failed by its step, quiescent, without counting.
  void expect_failed(RequestId id, const std::string& text) {
    const auto cancelled = prefill_.take<CancelledEvent>();
    EXPECT_EQ(cancelled.request, id);
    EXPECT_EQ(cancelled.reason.code(), ErrorCode::kStepFailed);
    EXPECT_THAT(cancelled.reason.text(), HasSubstr(text));
    const auto released = prefill_.take<PagesReleasedEvent>();
    EXPECT_EQ(released.request, id);
    EXPECT_EQ(released.result.code(), ErrorCode::kStepFailed);
    const auto failed = decode_.take<FailedEvent>();
    EXPECT_EQ(failed.reason.code(), ErrorCode::kStepFailed);
    EXPECT_THAT(failed.reason.text(), HasSubstr(text));
    ASSERT_EQ(failed.missing.size(), 1u);
    if (!failed.quiescent) {
      EXPECT_EQ(decode_.take<QuiescentEvent>().how, Quiescence::kCounted);
    }
  }

  MessengerPair pair_{GetParam().provider, GetParam()};
  KvNode& prefill_ = pair_.prefill();
  KvNode& decode_ = pair_.decode();
  const TestPrompt source_ = MessengerPair::prompt(1, 30, {3, 9, 4, 21});
  const TestPrompt target_ = MessengerPair::prompt(1, 30, {7, 2, 30, 11});
  const TestPrompt other_source_ = MessengerPair::prompt(2, 20, {0, 1, 5});
  const TestPrompt other_target_ = MessengerPair::prompt(2, 20, {5, 6, 1});
};

TEST_P(StepFailureTest, AMissingSignalFailsTheRequestsOfThatStepAlone) {
  const RequestId a = bound_request("a", source_, target_);
  const RequestId b = bound_request("b", other_source_, other_target_);
  const std::vector<KvNode::Chunk> first = {{a, &source_, {0, 16}}};
  const std::vector<KvNode::Chunk> second = {{b, &other_source_, {0, 19}}};
  const StepId one = prefill_.begin_step(first);
  const StepId two = prefill_.begin_step(second);
  run(one, first, 2);
  run(two, second, 3);
  expect_failed(a, "2 layer signals instead of 3");
  decode_.take<ReadyEvent>();
  EXPECT_TRUE(prefill_.take<PagesReleasedEvent>().result.ok());
  EXPECT_EQ(prefill_.messenger().stats().steps_failed, 1u);
  EXPECT_EQ(decode_.messenger().stats().requests_failed, 1u);
}

TEST_P(StepFailureTest, AnExtraSignalFailsARequestThatIsStillOpen) {
  const RequestId id = bound_request("a", source_, target_);
  const std::vector<KvNode::Chunk> first = {{id, &source_, {0, 16}}};
  const std::vector<KvNode::Chunk> second = {{id, &source_, {16, 29}}};
  run(prefill_.begin_step(first), first, 4);
  // What is seen late, since nothing is pending, is seen when the next step is announced.
  const StepId two = prefill_.begin_step(second);
  expect_failed(id, "more layer signals");
  run(two, second, 3);
  // The next request is not hurt.
  const RequestId next = bound_request("b", other_source_, other_target_);
  pair_.run_chunks(next, other_source_, 0, {10, 19});
  decode_.take<ReadyEvent>();
  EXPECT_TRUE(prefill_.take<PagesReleasedEvent>().result.ok());
}

TEST_P(StepFailureTest, AStepThatTheEngineFails) {
  const RequestId a = bound_request("a", source_, target_);
  const RequestId b = bound_request("b", other_source_, other_target_);
  const std::vector<KvNode::Chunk> chunks = {{a, &source_, {0, 29}}, {b, &other_source_, {0, 8}}};
  const StepId step = prefill_.begin_step(chunks);
  run(step, chunks, 1);
  prefill_.messenger().fail_step(prefill_.counter(), step, "out of memory");
  const std::vector<RequestId> cancelled = {prefill_.take<CancelledEvent>().request,
                                            prefill_.take<CancelledEvent>().request};
  EXPECT_THAT(cancelled, ElementsAre(a, b));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(prefill_.take<PagesReleasedEvent>().result.text(), HasSubstr("out of memory"));
    const auto failed = decode_.take<FailedEvent>();
    EXPECT_THAT(failed.reason.text(), HasSubstr("out of memory"));
    if (!failed.quiescent) decode_.take<QuiescentEvent>();
  }
  EXPECT_THAT(prefill_.pending(), IsEmpty());
  EXPECT_THAT(decode_.pending(), IsEmpty());
}

TEST_P(StepFailureTest, AFailedStepMayGoOnSignalling) {
  const RequestId id = bound_request("a", source_, target_);
  const std::vector<KvNode::Chunk> chunks = {{id, &source_, {0, 29}}};
  const StepId step = prefill_.begin_step(chunks);
  run(step, chunks, 1);
  prefill_.messenger().fail_step(prefill_.counter(), step, "lost");
  prefill_.counter().signal();
  prefill_.counter().signal();
  expect_failed(id, "lost");
  EXPECT_EQ(prefill_.messenger().stats().stray_signals, 0u);
}

TEST_P(StepFailureTest, AChunkThatFollowsADiscardedOneIsNotSent) {
  const RequestId id = bound_request("a", source_, target_);
  const StepId one = prefill_.begin_step({{id, &source_, {0, 16}}});
  const std::vector<KvNode::Chunk> second = {{id, &source_, {16, 29}}};
  const StepId two = prefill_.begin_step(second);
  prefill_.messenger().discard_step(prefill_.counter(), one);
  run(two, second, 3);
  expect_failed(id, "discarded");
}

TEST_P(StepFailureTest, RefusesChunksThatDoNotFollowEachOther) {
  const RequestId id = bound_request("a", source_, target_);
  EXPECT_THROW(prefill_.begin_step({{id, &source_, {1, 9}}}), Error);
  EXPECT_THROW(prefill_.begin_step({{id, &source_, {0, 31}}}), Error);
  EXPECT_THROW(prefill_.begin_step({{id, &source_, {0, 0}}}), Error);
  EXPECT_THROW(prefill_.begin_step({{id, &source_, {0, 9}}, {id, &source_, {8, 12}}}), Error);
  StepPlan plan;
  plan.signal_map = {{LayerIndex(3)}};
  EXPECT_THROW(prefill_.messenger().begin_step(prefill_.counter(), plan), Error);
  plan.signal_map = {{LayerIndex(1)}, {LayerIndex(1)}};
  EXPECT_THROW(prefill_.messenger().begin_step(prefill_.counter(), plan), Error);
  // A refused step leaves nothing behind.
  pair_.run_chunks(id, source_, 0, {29});
  pair_.finish(target_, {0, 29});
}

TEST_P(StepFailureTest, RefusesAStepBeforeItsPagesAreBound) {
  const RequestId id = prefill_.messenger().expect_request("a");
  EXPECT_THROW(prefill_.begin_step({{id, &source_, {0, 9}}}), Error);
}

TEST_P(StepFailureTest, IgnoresChunksOfRequestsThatHaveEnded) {
  const RequestId a = bound_request("a", source_, target_);
  const RequestId b = bound_request("b", other_source_, other_target_);
  prefill_.messenger().fail(a, "enough");
  prefill_.take<PagesReleasedEvent>();
  const std::vector<KvNode::Chunk> chunks = {{a, &source_, {0, 16}}, {b, &other_source_, {0, 19}}};
  run(prefill_.begin_step(chunks), chunks, 3);
  decode_.take<ReadyEvent>();
  EXPECT_TRUE(prefill_.take<PagesReleasedEvent>().result.ok());
}

TEST_P(StepFailureTest, StraySignalsAreCounted) {
  prefill_.counter().signal();
  prefill_.counter().signal();
  const RequestId id = bound_request("a", source_, target_);
  pair_.run_chunks(id, source_, 0, {29});
  pair_.finish(target_, {0, 29});
  // They may also be gone unseen, when the step began before anybody looked.
  EXPECT_LE(prefill_.messenger().stats().stray_signals, 2u);
}

INSTANTIATE_TEST_SUITE_P(Shapes, StepFailureTest,
                         ::testing::Values(PairShape{"tcp", "tcp"}, PairShape{"shm", "shm"},
                                           in_worker("tcp"), in_worker("shm")),
                         shape_name);

}  // namespace
}  // namespace kvrail

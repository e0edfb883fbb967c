#include "messenger/messenger_pair.h"

// Requests that go well, in every order and cut.

namespace kvrail {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TransferTest : public ::testing::TestWithParam<PairShape> {
 protected:
  RequestId requested(KvNode& node) { return node.take<PrefillRequestedEvent>().request.id; }

  MessengerPair pair_{GetParam().provider, GetParam()};
  KvNode& prefill_ = pair_.prefill();
  KvNode& decode_ = pair_.decode();
  // 30 tokens in pages of 8: the last page is partly full, and its last token is not sent.
  const TestPrompt source_ = MessengerPair::prompt(1, 30, {3, 9, 4, 21});
  const TestPrompt target_ = MessengerPair::prompt(1, 30, {7, 2, 30, 11});
};

TEST_P(TransferTest, TellsThePrefillEngineWhatIsWanted) {
  decode_.request(pair_.peer(), "a", target_, 5, ContextSlot(1));
  const PrefillRequest request = prefill_.take<PrefillRequestedEvent>().request;
  EXPECT_EQ(request.external_id, "a");
  EXPECT_EQ(request.peer_name, "decode");
  EXPECT_EQ(request.prompt_tokens, 30u);
  EXPECT_EQ(request.sent, (TokenRange{5, 29}));
  EXPECT_TRUE(request.wants_context);
  EXPECT_THAT(request.payload, ElementsAre(std::byte{7}, std::byte{1}));
}

TEST_P(TransferTest, OneStep) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {29});
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, ChunksThatAreNoMultipleOfThePage) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {3, 4, 13, 16, 27, 29});
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, TheLastTokenIsNotSentThoughItIsComputed) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {20, 30});
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, PrefillPrefixIsSentWhenItIsBound) {
  prefill_.compute_all_layers(source_, {0, 16});
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 16);
  pair_.run_chunks(id, source_, 16, {25, 29});
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, EverythingIsInThePrefillPrefix) {
  prefill_.compute_all_layers(source_, {0, 30});
  decode_.request(pair_.peer(), "a", target_);
  prefill_.messenger().bind_pages(requested(prefill_), source_.pages, 30);
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, DecodePrefixIsNotSent) {
  decode_.request(pair_.peer(), "a", target_, 13);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {10, 29});
  pair_.finish(target_, {13, 29});
}

TEST_P(TransferTest, PrefillPrefixIsLongerThanDecodes) {
  prefill_.compute_all_layers(source_, {0, 24});
  decode_.request(pair_.peer(), "a", target_, 8);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 24);
  pair_.run_chunks(id, source_, 24, {29});
  pair_.finish(target_, {8, 29});
}

TEST_P(TransferTest, PrefillPrefixIsShorterThanDecodes) {
  prefill_.compute_all_layers(source_, {0, 8});
  decode_.request(pair_.peer(), "a", target_, 24);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 8);
  pair_.run_chunks(id, source_, 8, {21, 29});
  pair_.finish(target_, {24, 29});
}

TEST_P(TransferTest, AnExactMultipleOfThePage) {
  decode_.request(pair_.peer(), "a", MessengerPair::prompt(1, 17, {7, 2, 30}));
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {8, 16});
  pair_.finish(target_, {0, 16});
}

TEST_P(TransferTest, PrefillBeginsBeforeTheDecodeNodeAsks) {
  const RequestId id = prefill_.messenger().expect_request("a");
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {11});
  // The next step is half done when the request comes.
  const std::vector<KvNode::Chunk> chunks = {{id, &source_, {11, 29}}};
  const StepId step = prefill_.begin_step(chunks);
  prefill_.counter().start(step);
  prefill_.compute(source_, LayerIndex(0), {11, 29});
  prefill_.counter().signal();
  decode_.request(pair_.peer(), "a", target_);
  for (std::uint32_t layer = 1; layer < 3; ++layer) {
    prefill_.compute(source_, LayerIndex(layer), {11, 29});
    prefill_.counter().signal();
  }
  pair_.finish(target_, {0, 29});
  EXPECT_FALSE(prefill_.has<PrefillRequestedEvent>());
}

TEST_P(TransferTest, PrefillIsDoneBeforeTheDecodeNodeAsks) {
  const RequestId id = prefill_.messenger().expect_request("a");
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {29});
  decode_.request(pair_.peer(), "a", target_);
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, ExpectedAndAskedForBeforeItIsBound) {
  const RequestId id = prefill_.messenger().expect_request("a");
  decode_.request(pair_.peer(), "a", target_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {29});
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, SeveralStepsInFlight) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  std::vector<std::pair<StepId, std::vector<KvNode::Chunk>>> steps;
  for (std::uint32_t first = 0; first < 29; first += 7) {
    std::vector<KvNode::Chunk> chunks = {{id, &source_, {first, std::min(first + 7, 29u)}}};
    const StepId step = prefill_.begin_step(chunks);
    steps.emplace_back(step, std::move(chunks));
  }
  for (const auto& [step, chunks] : steps) prefill_.run_step(step, chunks);
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, SeveralRequestsInAStep) {
  const TestPrompt other_source = MessengerPair::prompt(2, 12, {0, 1});
  const TestPrompt other_target = MessengerPair::prompt(2, 12, {5, 6});
  decode_.request(pair_.peer(), "a", target_);
  decode_.request(pair_.peer(), "b", other_target);
  const RequestId a = requested(prefill_);
  const RequestId b = requested(prefill_);
  prefill_.messenger().bind_pages(a, source_.pages, 0);
  prefill_.messenger().bind_pages(b, other_source.pages, 0);
  const std::vector<KvNode::Chunk> first = {{a, &source_, {0, 20}}, {b, &other_source, {0, 4}}};
  prefill_.run_step(prefill_.begin_step(first), first);
  const std::vector<KvNode::Chunk> second = {{b, &other_source, {4, 11}}, {a, &source_, {20, 29}}};
  prefill_.run_step(prefill_.begin_step(second), second);
  decode_.take<ReadyEvent>();
  decode_.expect(other_target, {0, 11});
  prefill_.take<PagesReleasedEvent>();
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, StepsWithoutChunksAreAnnouncedToo) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  prefill_.run_step(prefill_.begin_step({}), {});
  pair_.run_chunks(id, source_, 0, {29});
  prefill_.run_step(prefill_.begin_step({}), {});
  pair_.finish(target_, {0, 29});
  EXPECT_EQ(prefill_.messenger().stats().steps_failed, 0u);
}

TEST_P(TransferTest, ASignalMayCompleteSeveralLayers) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  StepPlan plan;
  plan.chunks = {{id, {0, 29}}};
  plan.signal_map = {{LayerIndex(2), LayerIndex(0)}, {LayerIndex(1)}};
  const StepId step = prefill_.messenger().begin_step(prefill_.counter(), plan);
  prefill_.counter().start(step);
  prefill_.compute(source_, LayerIndex(0), {0, 29});
  prefill_.compute(source_, LayerIndex(2), {0, 29});
  prefill_.counter().signal();
  prefill_.compute(source_, LayerIndex(1), {0, 29});
  prefill_.counter().signal();
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, PipelineStagesHaveCountersOfTheirOwn) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  const auto second_stage = prefill_.messenger().make_layer_counter();
  StepPlan first;
  first.chunks = {{id, {0, 29}}};
  first.signal_map = {{LayerIndex(0)}, {LayerIndex(1)}};
  StepPlan second;
  second.chunks = {{id, {0, 29}}};
  second.signal_map = {{LayerIndex(2)}};
  prefill_.counter().start(prefill_.messenger().begin_step(prefill_.counter(), first));
  second_stage->start(prefill_.messenger().begin_step(*second_stage, second));
  prefill_.compute_all_layers(source_, {0, 29});
  second_stage->signal();
  prefill_.counter().signal();
  prefill_.counter().signal();
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, ADiscardedChunkIsAnnouncedAgain) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {8});
  const StepId second = prefill_.begin_step({{id, &source_, {8, 20}}});
  const StepId third = prefill_.begin_step({{id, &source_, {20, 29}}});
  prefill_.messenger().discard_step(prefill_.counter(), second);
  prefill_.messenger().discard_step(prefill_.counter(), third);
  pair_.run_chunks(id, source_, 8, {15, 29});
  pair_.finish(target_, {0, 29});
  EXPECT_EQ(prefill_.messenger().stats().steps_failed, 0u);
}

TEST_P(TransferTest, ContextFollowsTheLastLayer) {
  decode_.request(pair_.peer(), "a", target_, 0, ContextSlot(2));
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0, ContextSlot(3));
  pair_.run_chunks(id, source_, 0, {29});
  EXPECT_FALSE(decode_.has<ReadyEvent>());
  prefill_.fill_context(5, ContextSlot(3));
  prefill_.messenger().context_ready(id);
  decode_.expect_context(5, ContextSlot(2));
  pair_.finish(target_, {0, 29});
}

TEST_P(TransferTest, ContextAlone) {
  decode_.request(pair_.peer(), "a", target_, 30, ContextSlot(0));
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 30, ContextSlot(1));
  prefill_.fill_context(6, ContextSlot(1));
  prefill_.messenger().context_ready(id);
  decode_.expect_context(6, ContextSlot(0));
  pair_.finish(target_, {29, 29});
}

TEST_P(TransferTest, NothingToSendCompletesOnBothSides) {
  decode_.request(pair_.peer(), "a", target_, 30);
  EXPECT_EQ(decode_.take<ReadyEvent>().report.units, 0u);
  EXPECT_EQ(prefill_.take<PrefillRequestedEvent>().request.sent, (TokenRange{29, 29}));
  const auto released = prefill_.take<PagesReleasedEvent>();
  EXPECT_TRUE(released.result.ok());
  EXPECT_EQ(released.report.units, 0u);
  // The engine may not have heard yet.
  prefill_.messenger().bind_pages(released.request, source_.pages, 0);
  EXPECT_THAT(prefill_.pending(), IsEmpty());
}

TEST_P(TransferTest, NothingToSendEndsARequestThatIsExpected) {
  const RequestId id = prefill_.messenger().expect_request("a");
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  decode_.request(pair_.peer(), "a", target_, 29);
  decode_.take<ReadyEvent>();
  EXPECT_TRUE(prefill_.take<PagesReleasedEvent>().result.ok());
  EXPECT_THAT(prefill_.pending(), IsEmpty());
}

TEST_P(TransferTest, APromptOfOneToken) {
  decode_.request(pair_.peer(), "a", MessengerPair::prompt(1, 1, {}));
  decode_.take<ReadyEvent>();
  EXPECT_TRUE(prefill_.take<PagesReleasedEvent>().result.ok());
}

TEST_P(TransferTest, APromptOfTwoTokens) {
  decode_.request(pair_.peer(), "a", MessengerPair::prompt(1, 2, {7}));
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {1});
  pair_.finish(target_, {0, 1});
}

TEST_P(TransferTest, AnExternalIdCanBeUsedAgainOnceItIsReady) {
  for (int i = 0; i < 20; ++i) {
    decode_.request(pair_.peer(), "a", target_);
    const RequestId id = requested(prefill_);
    prefill_.messenger().bind_pages(id, source_.pages, 0);
    pair_.run_chunks(id, source_, 0, {29});
    decode_.take<ReadyEvent>();
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(prefill_.take<PagesReleasedEvent>().result.ok());
  EXPECT_EQ(prefill_.messenger().stats().requests_released, 20u);
  EXPECT_EQ(decode_.messenger().stats().requests_ready, 20u);
  EXPECT_EQ(decode_.messenger().stats().requests_open, 0u);
}

TEST_P(TransferTest, ReportsWhenEachLayerCrossed) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = requested(prefill_);
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {16, 29});
  const auto ready = decode_.take<ReadyEvent>().report;
  EXPECT_GE(ready.first_arrival_ns, ready.requested_ns);
  EXPECT_GE(ready.last_arrival_ns, ready.first_arrival_ns);
  const auto released = prefill_.take<PagesReleasedEvent>();
  ASSERT_EQ(released.report.layers.size(), 6u);
  for (const LayerTiming& timing : released.report.layers) {
    EXPECT_GE(timing.step, StepId(1));
    EXPECT_GT(timing.seen_ns, 0);
    EXPECT_GE(timing.first_post_ns, timing.seen_ns);
    EXPECT_GE(timing.last_completion_ns, timing.first_post_ns);
  }
}

// The example of docs/protocol.md.
TEST(ProtocolExample, CountsWhatItSays) {
  MessengerPair pair("tcp");
  const TestPrompt source = MessengerPair::prompt(1, 30, {3, 9, 4, 21});
  const TestPrompt target = MessengerPair::prompt(1, 30, {7, 2, 30, 11});
  pair.decode().request(pair.peer(), "a", target, 8);
  const RequestId id = pair.prefill().take<PrefillRequestedEvent>().request.id;
  pair.prefill().compute_all_layers(source, {0, 16});
  pair.prefill().messenger().bind_pages(id, source.pages, 16);
  // The prefix by itself, before a chunk can take it along.
  ASSERT_TRUE(poll_until(
      [&] { return pair.decode().messenger().stats().fabric.peers[0].links.units_received == 6; }));
  pair.run_chunks(id, source, 16, {27, 29});
  EXPECT_EQ(pair.decode().take<ReadyEvent>().report.units, 24u);
  const auto released = pair.prefill().take<PagesReleasedEvent>();
  std::vector<std::uint64_t> parts(3);
  for (const LayerTiming& timing : released.report.layers) ++parts.at(timing.step.value());
  EXPECT_THAT(parts, ElementsAre(3, 3, 3));
  EXPECT_EQ(released.report.units, 24u);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TransferTest, ::testing::ValuesIn(pair_shapes()), shape_name);

}  // namespace
}  // namespace kvrail

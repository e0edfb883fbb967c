#include "messenger/messenger_pair.h"

// Requests that one of the engines refuses, gives up, or asks for wrongly.

namespace kvrail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RequestEndTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Nothing else was told to anybody.
  void expect_silence() {
    EXPECT_THAT(prefill_.pending(), IsEmpty());
    EXPECT_THAT(decode_.pending(), IsEmpty());
  }
  void expect_that_requests_still_work() {
    decode_.request(pair_.peer(), "works", target_);
    const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
    prefill_.messenger().bind_pages(id, source_.pages, 0);
    pair_.run_chunks(id, source_, 0, {29});
    pair_.finish(target_, {0, 29});
    expect_silence();
  }
  static ErrorCode code_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()), "");
      return error.code();
    }
    return ErrorCode::kOk;
  }

  MessengerPair pair_{GetParam()};
  KvNode& prefill_ = pair_.prefill();
  KvNode& decode_ = pair_.decode();
  const TestPrompt source_ = MessengerPair::prompt(1, 30, {3, 9, 4, 21});
  const TestPrompt target_ = MessengerPair::prompt(1, 30, {7, 2, 30, 11});
};

TEST_P(RequestEndTest, RejectedBeforeItIsBound) {
  const RequestId asked = decode_.request(pair_.peer(), "a", target_, 9);
  const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
  prefill_.messenger().reject(id, "too busy");
  const auto released = prefill_.take<PagesReleasedEvent>();
  EXPECT_EQ(released.request, id);
  EXPECT_EQ(released.result.code(), ErrorCode::kRejected);
  const auto failed = decode_.take<FailedEvent>();
  EXPECT_EQ(failed.request, asked);
  EXPECT_EQ(failed.reason.code(), ErrorCode::kRejected);
  EXPECT_THAT(failed.reason.text(), HasSubstr("too busy"));
  EXPECT_TRUE(failed.quiescent);
  ASSERT_EQ(failed.missing.size(), 1u);
  EXPECT_THAT(failed.missing[0].pages, ElementsAre(PageIndex(2), PageIndex(30), PageIndex(11)));
  expect_silence();
  // Too late, all of it.
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  prefill_.messenger().reject(id, "again");
  prefill_.messenger().fail(id, "again");
  prefill_.messenger().context_ready(id);
  expect_silence();
  expect_that_requests_still_work();
}

TEST_P(RequestEndTest, FailedAfterPartOfItWasSent) {
  decode_.request(pair_.peer(), "a", target_);
  const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {16});
  prefill_.messenger().fail(id, "preempted for good");
  const auto released = prefill_.take<PagesReleasedEvent>();
  EXPECT_EQ(released.result.code(), ErrorCode::kCancelled);
  const auto failed = decode_.take<FailedEvent>();
  EXPECT_EQ(failed.reason.code(), ErrorCode::kCancelled);
  EXPECT_THAT(failed.reason.text(), HasSubstr("preempted for good"));
  if (!failed.quiescent) {
    EXPECT_EQ(decode_.take<QuiescentEvent>().how, Quiescence::kCounted);
  }
  expect_silence();
  // What has landed is the request's own, and the pages are the engine's again.
  decode_.compute_all_layers(target_, {0, 16});
  EXPECT_EQ(decode_.find_fault(), "");
  expect_that_requests_still_work();
}

TEST_P(RequestEndTest, AnExpectedRequestThatNeverComes) {
  const RequestId id = prefill_.messenger().expect_request("a");
  prefill_.messenger().bind_pages(id, source_.pages, 0);
  pair_.run_chunks(id, source_, 0, {29});
  prefill_.messenger().fail(id, "no one came");
  EXPECT_EQ(prefill_.take<PagesReleasedEvent>().result.code(), ErrorCode::kCancelled);
  // When it comes at last, it is a new one.
  decode_.request(pair_.peer(), "a", target_);
  EXPECT_NE(prefill_.take<PrefillRequestedEvent>().request.id, id);
}

TEST_P(RequestEndTest, APrefillThatBoundTooFewPagesFailsWhenItIsAskedFor) {
  const RequestId id = prefill_.messenger().expect_request("a");
  prefill_.messenger().bind_pages(id, KvNode::pages({1, 2}), 0);
  decode_.request(pair_.peer(), "a", target_);
  EXPECT_EQ(prefill_.take<CancelledEvent>().reason.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(prefill_.take<PagesReleasedEvent>().request, id);
  EXPECT_TRUE(decode_.take<FailedEvent>().quiescent);
  expect_silence();
}

TEST_P(RequestEndTest, ExternalIdsAreUniqueAmongOpenRequests) {
  decode_.request(pair_.peer(), "a", target_);
  EXPECT_EQ(code_of([&] { decode_.request(pair_.peer(), "a", target_); }),
            ErrorCode::kInvalidArgument);
  prefill_.take<PrefillRequestedEvent>();
  EXPECT_EQ(code_of([&] { prefill_.messenger().expect_request("a"); }),
            ErrorCode::kInvalidArgument);
  prefill_.messenger().expect_request("b");
  EXPECT_EQ(code_of([&] { prefill_.messenger().expect_request("b"); }),
            ErrorCode::kInvalidArgument);
}

TEST_P(RequestEndTest, AnotherDecodeNodesDuplicateIsRejected) {
  KvNode other(MessengerPair::options(GetParam(), "other", false));
  const PeerId peer = other.messenger().connect(prefill_.address());
  decode_.request(pair_.peer(), "a", target_);
  prefill_.take<PrefillRequestedEvent>();
  other.request(peer, "a", target_);
  const auto failed = other.take<FailedEvent>();
  EXPECT_EQ(failed.reason.code(), ErrorCode::kRejected);
  EXPECT_THAT(failed.reason.text(), HasSubstr("open already"));
  EXPECT_TRUE(failed.quiescent);
  EXPECT_FALSE(prefill_.has<PrefillRequestedEvent>());
}

TEST_P(RequestEndTest, DecodeRequestsThatDoNotFit) {
  const auto refused = [&](const TestPrompt& prompt, std::uint32_t cached,
                           std::optional<ContextSlot> slot) {
    return code_of([&] { decode_.request(pair_.peer(), "a", prompt, cached, slot); });
  };
  const auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_EQ(refused(MessengerPair::prompt(1, 30, {7, 2, 30}), 0, {}), kInvalid);
  EXPECT_EQ(refused(MessengerPair::prompt(1, 30, {7, 2, 30, 32}), 0, {}), kInvalid);
  EXPECT_EQ(refused(MessengerPair::prompt(1, 0, {}), 0, {}), kInvalid);
  EXPECT_EQ(refused(target_, 31, {}), kInvalid);
  EXPECT_EQ(refused(target_, 0, ContextSlot(4)), kInvalid);
  DecodeRequest request;
  request.prompt_tokens = 30;
  request.pages = target_.pages;
  EXPECT_EQ(code_of([&] { decode_.messenger().request_prefill(pair_.peer(), request); }), kInvalid);
  request.external_id = "a";
  request.payload.resize((4u << 20) + 1);
  EXPECT_EQ(code_of([&] { decode_.messenger().request_prefill(pair_.peer(), request); }), kInvalid);
  expect_silence();
  expect_that_requests_still_work();
}

TEST_P(RequestEndTest, ALargePayloadCrosses) {
  DecodeRequest request;
  request.external_id = "a";
  request.prompt_tokens = 30;
  request.pages = target_.pages;
  request.payload.assign(4u << 20, std::byte{0x5A});
  decode_.messenger().request_prefill(pair_.peer(), request);
  EXPECT_EQ(prefill_.take<PrefillRequestedEvent>().request.payload, request.payload);
}

TEST_P(RequestEndTest, SourcePagesThatDoNotFit) {
  decode_.request(pair_.peer(), "a", target_, 0, ContextSlot(0));
  const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
  const auto bind = [&](const RequestPages& pages, std::uint32_t cached,
                        std::optional<ContextSlot> slot) {
    return code_of([&] { prefill_.messenger().bind_pages(id, pages, cached, slot); });
  };
  const auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_EQ(bind(KvNode::pages({1, 2, 3}), 0, ContextSlot(0)), kInvalid);
  EXPECT_EQ(bind(KvNode::pages({1, 2, 3, 32}), 0, ContextSlot(0)), kInvalid);
  EXPECT_EQ(bind(source_.pages, 31, ContextSlot(0)), kInvalid);
  EXPECT_EQ(bind(source_.pages, 0, ContextSlot(4)), kInvalid);
  EXPECT_EQ(bind(source_.pages, 0, std::nullopt), kInvalid);
  EXPECT_EQ(bind(source_.pages, 0, ContextSlot(1)), ErrorCode::kOk);
  EXPECT_EQ(bind(source_.pages, 0, ContextSlot(1)), kInvalid);
  pair_.run_chunks(id, source_, 0, {29});
  prefill_.fill_context(3, ContextSlot(1));
  prefill_.messenger().context_ready(id);
  decode_.expect_context(3, ContextSlot(0));
  pair_.finish(target_, {0, 29});
}

TEST_P(RequestEndTest, APeerThatIsUnknownOrGone) {
  const RequestId id = decode_.request(PeerId(99), "a", target_);
  const auto failed = decode_.take<FailedEvent>();
  EXPECT_EQ(failed.request, id);
  EXPECT_EQ(failed.reason.code(), ErrorCode::kPeerLost);
  EXPECT_TRUE(failed.quiescent);
  // A decode node does not prefill.
  EXPECT_EQ(code_of([&] { decode_.messenger().expect_request("a"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { prefill_.request(PeerId(1), "a", target_); }),
            ErrorCode::kInvalidArgument);
}

TEST_P(RequestEndTest, ManySmallQueuesHoldNothingUp) {
  // One submission at a time may wait, so that almost every one is refused first.
  MessengerPair pair(GetParam(), [](KvNodeOptions& options) {
    options.messenger.fabric.submission_queue_length = 1;
    options.messenger.fabric.queue_depth = 1;
    options.messenger.fabric.receive_credit = 2;
    options.cache.model.layers = 8;
  });
  constexpr std::uint32_t kRequests = 4;
  std::vector<MessengerPair::OwnPages> prompts;
  std::vector<RequestId> ids;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    prompts.push_back(MessengerPair::own_pages(i));
    ids.push_back(pair.bind(std::to_string(i), prompts[i].source, prompts[i].target).id);
  }
  for (std::uint32_t first = 0; first < 29; first += 5) {
    std::vector<KvNode::Chunk> chunks;
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      chunks.push_back({ids[i], &prompts[i].source, {first, std::min(first + 5, 29u)}});
    }
    pair.prefill().run_step(pair.prefill().begin_step(chunks), chunks);
  }
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    pair.decode().take<ReadyEvent>();
    EXPECT_TRUE(pair.prefill().take<PagesReleasedEvent>().result.ok());
    pair.decode().expect(prompts[i].target, {0, 29});
  }
  EXPECT_EQ(pair.decode().find_fault(), "");
}

INSTANTIATE_TEST_SUITE_P(Providers, RequestEndTest, ::testing::Values("tcp", "shm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvrail

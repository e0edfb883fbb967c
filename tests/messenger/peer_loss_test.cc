#include <fmt/format.h>

#include "messenger/messenger_pair.h"

// Peers that go away, in the middle of everything.

namespace kvrail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

class PeerLossTest : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::uint32_t kRequests = 3;

  // Requests that are announced, half sent, and sent but for a layer.
  void begin_requests() {
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      sources_.push_back(MessengerPair::prompt(i, 30, {4 * i, 4 * i + 2, 4 * i + 1, 4 * i + 3}));
      targets_.push_back(MessengerPair::prompt(i, 30, {4 * i + 3, 4 * i, 4 * i + 2, 4 * i + 1}));
      asked_.push_back(decode_.request(pair_.peer(), std::to_string(i), targets_[i]));
      ids_.push_back(prefill_.take<PrefillRequestedEvent>().request.id);
    }
    prefill_.messenger().bind_pages(ids_[1], sources_[1].pages, 0);
    prefill_.messenger().bind_pages(ids_[2], sources_[2].pages, 0);
    pair_.run_chunks(ids_[1], sources_[1], 0, {15});
    step_ = prefill_.begin_step({{ids_[2], &sources_[2], {0, 29}}});
    prefill_.counter().start(step_);
    prefill_.counter().signal();
    prefill_.counter().signal();
  }

  MessengerPair pair_{GetParam()};
  KvNode& prefill_ = pair_.prefill();
  KvNode& decode_ = pair_.decode();
  std::vector<TestPrompt> sources_;
  std::vector<TestPrompt> targets_;
  std::vector<RequestId> asked_;
  std::vector<RequestId> ids_;
  StepId step_;
};

TEST_P(PeerLossTest, ThePrefillNodeClosesInMidTransfer) {
  begin_requests();
  prefill_.destroy_messenger();
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    const auto failed = decode_.take<FailedEvent>();
    EXPECT_EQ(failed.request, asked_[i]);
    EXPECT_EQ(failed.reason.code(), ErrorCode::kPeerLost);
    EXPECT_THAT(failed.reason.text(), HasSubstr("prefill (127.0.0.1:"));
    EXPECT_FALSE(failed.quiescent);
    ASSERT_EQ(failed.missing.size(), 1u);
    EXPECT_EQ(failed.missing[0].pages, targets_[i].pages.by_group[0]);
  }
  EXPECT_FALSE(decode_.has<ReadyEvent>());
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    const auto quiescent = decode_.take<QuiescentEvent>();
    EXPECT_EQ(quiescent.request, asked_[i]);
    EXPECT_EQ(quiescent.how, Quiescence::kProved);
  }
  EXPECT_EQ(decode_.take<PeerLostEvent>().peer, pair_.peer());
  EXPECT_THAT(decode_.pending(), IsEmpty());
  EXPECT_EQ(decode_.messenger().stats().requests_open, 0u);
  // Its own requests have ended before the destructor returned.
  std::vector<RequestId> released;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    const auto end = prefill_.take<PagesReleasedEvent>();
    EXPECT_EQ(end.result.code(), ErrorCode::kShutDown);
    released.push_back(end.request);
  }
  EXPECT_THAT(released, UnorderedElementsAreArray(ids_));
  EXPECT_THAT(prefill_.pending(), ElementsAre("peer_lost"));
}

TEST_P(PeerLossTest, TheDecodeNodeClosesInMidTransfer) {
  begin_requests();
  decode_.destroy_messenger();
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    const auto failed = decode_.take<FailedEvent>();
    EXPECT_EQ(failed.request, asked_[i]);
    EXPECT_EQ(failed.reason.code(), ErrorCode::kShutDown);
    EXPECT_TRUE(failed.quiescent);
  }
  EXPECT_THAT(decode_.pending(), ElementsAre("peer_lost"));
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    EXPECT_EQ(prefill_.take<CancelledEvent>().reason.code(), ErrorCode::kPeerLost);
    EXPECT_EQ(prefill_.take<PagesReleasedEvent>().result.code(), ErrorCode::kPeerLost);
  }
  prefill_.take<PeerLostEvent>();
  // The forward passes go on.
  prefill_.counter().signal();
  const std::vector<KvNode::Chunk> chunks = {{ids_[1], &sources_[1], {15, 29}}};
  prefill_.run_step(prefill_.begin_step(chunks), chunks);
  EXPECT_THAT(prefill_.pending(), IsEmpty());
  EXPECT_EQ(prefill_.messenger().stats().requests_open, 0u);
  EXPECT_EQ(prefill_.messenger().stats().peers_attached, 0u);
}

TEST_P(PeerLossTest, AnotherNodeTakesThePlaceOfTheLostOne) {
  begin_requests();
  decode_.destroy_messenger();
  prefill_.take<PeerLostEvent>();
  KvNode other(MessengerPair::options(GetParam(), "other", false));
  const PeerId peer = other.messenger().connect(prefill_.address());
  other.request(peer, "1", targets_[1]);
  const RequestId id = prefill_.take<PrefillRequestedEvent>().request.id;
  prefill_.messenger().bind_pages(id, KvNode::pages({20, 21, 22, 23}), 0);
  const TestPrompt source = MessengerPair::prompt(1, 30, {20, 21, 22, 23});
  // The step of the lost request is still the counter's.
  prefill_.counter().signal();
  pair_.run_chunks(id, source, 0, {29});
  other.take<ReadyEvent>();
  other.expect(targets_[1], {0, 29});
  EXPECT_EQ(other.find_fault(), "");
}

TEST_P(PeerLossTest, EndsRequestsWhileTheirWritesAreUnderWay) {
  // Large pages, so that the end comes in mid-write.
  for (int round = 0; round < scaled(8); ++round) {
    MessengerPair pair(GetParam(), [](KvNodeOptions& options) {
      options.cache.model.layers = 4;
      options.cache.model.head_size = 512;
      options.cache.page_tokens = 64;
      options.cache.page_count = 32;
    });
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t page = 0; page < 32; ++page) numbers.push_back(page);
    const TestPrompt prompt = MessengerPair::prompt(1, 32 * 64, numbers);
    pair.decode().request(pair.peer(), "a", prompt);
    const RequestId id = pair.prefill().take<PrefillRequestedEvent>().request.id;
    pair.prefill().messenger().bind_pages(id, prompt.pages, prompt.tokens);
    if (round % 2 == 0) {
      pair.decode().destroy_messenger();
      const auto status = pair.prefill().take<PagesReleasedEvent>().result;
      EXPECT_TRUE(status.ok() || status.code() == ErrorCode::kPeerLost) << status.text();
    } else {
      pair.prefill().destroy_messenger();
      if (!pair.decode().has<ReadyEvent>()) {
        const bool ended = poll_until(
            [&] { return pair.decode().has<ReadyEvent>() || pair.decode().has<FailedEvent>(); });
        EXPECT_TRUE(ended);
      }
      if (pair.decode().has<FailedEvent>()) {
        EXPECT_EQ(pair.decode().take<QuiescentEvent>().how, Quiescence::kProved);
      }
    }
  }
}

TEST_P(PeerLossTest, TwoPrefillAndTwoDecodeNodes) {
  KvNode prefill2(MessengerPair::options(GetParam(), "prefill2", true));
  KvNode decode2(MessengerPair::options(GetParam(), "decode2", false));
  const std::vector<KvNode*> prefills = {&prefill_, &prefill2};
  const std::vector<KvNode*> decodes = {&decode_, &decode2};
  std::vector<std::vector<PeerId>> peers(2);
  for (std::size_t d = 0; d < 2; ++d) {
    for (std::size_t p = 0; p < 2; ++p) {
      peers[d].push_back(d == 0 && p == 0
                             ? pair_.peer()
                             : decodes[d]->messenger().connect(prefills[p]->address()));
    }
  }
  constexpr std::uint32_t kEach = 2;
  for (std::uint32_t round = 0; round < kEach; ++round) {
    for (std::uint32_t d = 0; d < 2; ++d) {
      for (std::uint32_t p = 0; p < 2; ++p) {
        const std::uint32_t page = (round * 2 + p) * 4;
        decodes[d]->request(
            peers[d][p], fmt::format("{} {} {}", round, d, p),
            MessengerPair::prompt(100 * d + page, 30, {page, page + 1, page + 2, page + 3}));
      }
    }
  }
  for (std::uint32_t p = 0; p < 2; ++p) {
    std::vector<TestPrompt> sources;
    std::vector<KvNode::Chunk> chunks;
    sources.reserve(2 * kEach);
    for (std::uint32_t i = 0; i < 2 * kEach; ++i) {
      const PrefillRequest request = prefills[p]->take<PrefillRequestedEvent>().request;
      const auto seed = static_cast<std::uint32_t>(request.payload.at(1));
      sources.push_back(MessengerPair::prompt(seed, 30, {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3}));
      prefills[p]->messenger().bind_pages(request.id, sources.back().pages, 0);
      chunks.push_back({request.id, &sources.back(), {0, 29}});
    }
    prefills[p]->run_step(prefills[p]->begin_step(chunks), chunks);
    for (std::uint32_t i = 0; i < 2 * kEach; ++i) {
      EXPECT_TRUE(prefills[p]->take<PagesReleasedEvent>().result.ok());
    }
  }
  for (std::uint32_t d = 0; d < 2; ++d) {
    for (std::uint32_t i = 0; i < 2 * kEach; ++i) {
      decodes[d]->take<ReadyEvent>();
      const std::uint32_t page = i * 4;
      decodes[d]->expect(
          MessengerPair::prompt(100 * d + page, 30, {page, page + 1, page + 2, page + 3}), {0, 29});
    }
    EXPECT_EQ(decodes[d]->find_fault(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Providers, PeerLossTest, ::testing::Values("tcp", "shm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvrail

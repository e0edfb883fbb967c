#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "messenger/eavesdropper.h"
#include "messenger/messenger_pair.h"
#include "support/process_child.h"

// Peers in processes of their own, which are stopped and killed in mid-transfer. The other process
// is this program, started once more as "prefill" or "decode".

namespace kvrail {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t kPages = 48;
constexpr std::uint32_t kPageTokens = 64;
constexpr std::uint32_t kTokens = kPages * kPageTokens;

// Pages so large that most of a request is under way when its peer stops.
KvNodeOptions options(const std::string& provider, bool prefills) {
  KvNodeOptions options =
      MessengerPair::options(provider, prefills ? "prefill" : "decode", prefills);
  options.cache.model.layers = 2;
  options.cache.model.head_size = 128;
  options.cache.page_tokens = kPageTokens;
  options.cache.page_count = kPages;
  options.messenger.key = key_of(7);
  options.messenger.heartbeat_ms = 50;
  options.messenger.lost_after_ms = kSanitized ? 2000 : 500;
  return options;
}

TestPrompt prompt(std::uint32_t seed) {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t page = 0; page < kPages; ++page) numbers.push_back(page * 7 % kPages);
  return MessengerPair::prompt(seed, kTokens, numbers);
}

// Asks for a prefill, and says how it ended.
int decode_child(ProcessChannel& channel) {
  const std::string provider = hear(channel);
  KvNode node(options(provider, false));
  const PeerId peer = node.messenger().connect(hear(channel));
  // Until a peer has polled once, some providers post nothing to it.
  node.request(peer, "first", MessengerPair::prompt(3, 9, {0}));
  node.take<ReadyEvent>();
  node.request(peer, "a", prompt(1));
  say(channel, "asked");
  const auto lost = node.take<PeerLostEvent>();
  say(channel, std::string(to_string(lost.reason.code())));
  hear(channel);
  return 0;
}

// Whether all of the first half has been sent and nothing is under way.
bool rests(KvNode& node, const KvNodeOptions& options, std::uint32_t tokens) {
  const ModelShape& model = options.cache.model;
  const std::uint64_t bytes = tokens * model.layers * model.bytes_per_token_and_layer();
  const auto peers = node.messenger().stats().fabric.peers;
  return !peers.empty() && peers[0].links.bytes_posted == bytes &&
         peers[0].links.writes_completed == peers[0].links.writes_posted;
}

// Sends half of the prompt as soon as it is asked, the other half when it hears of it, and says how
// that ended.
int prefill_child(ProcessChannel& channel) {
  constexpr std::uint32_t kPrefix = kTokens / 2;
  const KvNodeOptions own = options(hear(channel), true);
  const bool at_rest = hear(channel) == "at rest";
  KvNode node(own);
  say(channel, node.address());
  const TestPrompt source = prompt(1);
  node.compute_all_layers(source, {0, kPrefix});
  const RequestId id = node.take<PrefillRequestedEvent>().request.id;
  node.messenger().bind_pages(id, source.pages, kPrefix);
  const std::vector<KvNode::Chunk> rest = {{id, &source, {kPrefix, kTokens}}};
  const StepId step = node.begin_step(rest);
  const auto resting = [&] { return rests(node, own, kPrefix); };
  if (at_rest && !(poll_until(resting) && holds_for(std::chrono::milliseconds(20), resting))) {
    return 1;
  }
  say(channel, "bound");
  hear(channel);
  node.run_step(step, rest);
  const auto released = node.take<PagesReleasedEvent>();
  node.take<PeerLostEvent>();
  say(channel, std::string(to_string(released.result.code())));
  hear(channel);
  return 0;
}

class ProcessTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Serves the decode child's first request.
  static void serve_first(KvNode& node) {
    node.take_attached();
    const RequestId first = node.take<PrefillRequestedEvent>().request.id;
    node.messenger().bind_pages(first, KvNode::pages({0}), 9);
    EXPECT_TRUE(node.take<PagesReleasedEvent>().result.ok());
  }
  // Serves the first, and sends a whole prompt to the child, which is stopped once it has asked.
  static void send_to_stopped(KvNode& node, ChildProcess& child) {
    serve_first(node);
    ASSERT_EQ(hear(child.channel()), "asked");
    const RequestId id = node.take<PrefillRequestedEvent>().request.id;
    ASSERT_TRUE(child.stop());
    node.messenger().bind_pages(id, prompt(1).pages, kTokens);
  }
};

TEST_P(ProcessTest, ADecodeNodeThatIsStoppedHoldsSourcePagesOnlyWhereItMayReadThem) {
  KvNode node(options(GetParam(), true));
  ChildProcess child("decode");
  say(child.channel(), GetParam());
  say(child.channel(), node.address());
  ASSERT_NO_FATAL_FAILURE(send_to_stopped(node, child));
  const auto cancelled = node.take<CancelledEvent>();
  EXPECT_EQ(cancelled.reason.code(), ErrorCode::kPeerLost);
  EXPECT_THAT(cancelled.reason.text(), HasSubstr("decode (127.0.0.1"));
  node.take<PeerLostEvent>();
  if (GetParam() == "shm") {
    // Silence proves nothing: the stopped process could still read them.
    EXPECT_TRUE(
        holds_for(std::chrono::milliseconds(200), [&] { return !node.has<PagesReleasedEvent>(); }));
    child.resume();
  }
  EXPECT_EQ(node.take<PagesReleasedEvent>().result.code(), ErrorCode::kPeerLost);
  EXPECT_THAT(node.pending(), IsEmpty());
  child.resume();
  EXPECT_EQ(hear(child.channel()), "peer_lost");
  say(child.channel(), "end");
  EXPECT_EQ(child.wait_for_exit(), 0);
}

// Anybody on its way can end a stream. The peer is alive, as it is here, or it is not.
TEST_P(ProcessTest, TheEndOfAStreamDoesNotReleaseSourcePagesThatThePeerMayRead) {
  KvNode node(options(GetParam(), true));
  Eavesdropper between(node.address());
  ChildProcess child("decode");
  say(child.channel(), GetParam());
  say(child.channel(), between.listen());
  ASSERT_NO_FATAL_FAILURE(send_to_stopped(node, child));
  ASSERT_TRUE(poll_until([&] {
    const auto peers = node.messenger().stats().fabric.peers;
    return !peers.empty() && peers[0].links.writes_posted > peers[0].links.writes_completed;
  }));
  between.cut();
  EXPECT_EQ(node.take<CancelledEvent>().reason.code(), ErrorCode::kPeerLost);
  node.take<PeerLostEvent>();
  if (GetParam() == "shm") {
    EXPECT_TRUE(
        holds_for(std::chrono::milliseconds(200), [&] { return !node.has<PagesReleasedEvent>(); }));
    child.kill();
  }
  EXPECT_EQ(node.take<PagesReleasedEvent>().result.code(), ErrorCode::kPeerLost);
  EXPECT_THAT(node.pending(), IsEmpty());
}

TEST_P(ProcessTest, ADecodeNodeThatIsKilledReleasesSourcePages) {
  KvNode node(options(GetParam(), true));
  ChildProcess child("decode");
  say(child.channel(), GetParam());
  say(child.channel(), node.address());
  ASSERT_NO_FATAL_FAILURE(send_to_stopped(node, child));
  child.kill();
  EXPECT_EQ(node.take<CancelledEvent>().reason.code(), ErrorCode::kPeerLost);
  EXPECT_EQ(node.take<PagesReleasedEvent>().result.code(), ErrorCode::kPeerLost);
  node.take<PeerLostEvent>();
  EXPECT_THAT(node.pending(), IsEmpty());
}

TEST_P(ProcessTest, APrefillNodeThatWakesAfterItWasGivenUpWritesNothing) {
  KvNode node(options(GetParam(), false));
  ChildProcess child("prefill");
  say(child.channel(), GetParam());
  // Over shm a process that is stopped in mid-write may hold a lock of ours, which nothing takes
  // back as long as it lives: docs/completion.md.
  say(child.channel(), GetParam() == "shm" ? "at rest" : "in mid-write");
  const PeerId peer = node.messenger().connect(hear(child.channel()));
  const TestPrompt target = prompt(1);
  node.request(peer, "a", target);
  ASSERT_EQ(hear(child.channel()), "bound");
  ASSERT_TRUE(child.stop());
  const auto failed = node.take<FailedEvent>();
  EXPECT_EQ(failed.reason.code(), ErrorCode::kPeerLost);
  EXPECT_FALSE(failed.quiescent);
  EXPECT_EQ(node.take<QuiescentEvent>().how, Quiescence::kProved);
  // The pages are the engine's again, and another request's.
  const TestPrompt other = prompt(2);
  node.compute_all_layers(other, {0, kTokens});
  // It goes on with its pass before it can know that it was given up.
  say(child.channel(), "go on");
  child.resume();
  EXPECT_EQ(hear(child.channel()), "peer_lost");
  EXPECT_EQ(node.find_fault(), "");
  say(child.channel(), "end");
  EXPECT_EQ(child.wait_for_exit(), 0);
  EXPECT_EQ(node.find_fault(), "");
}

TEST_P(ProcessTest, APrefillNodeThatIsKilledLeavesNothingBehind) {
  KvNode node(options(GetParam(), false));
  ChildProcess child("prefill");
  say(child.channel(), GetParam());
  say(child.channel(), "in mid-write");
  const PeerId peer = node.messenger().connect(hear(child.channel()));
  const TestPrompt target = prompt(1);
  node.request(peer, "a", target);
  ASSERT_EQ(hear(child.channel()), "bound");
  child.kill();
  node.take<PeerLostEvent>();
  const auto failed = node.take<FailedEvent>();
  EXPECT_EQ(failed.reason.code(), ErrorCode::kPeerLost);
  EXPECT_FALSE(failed.quiescent);
  EXPECT_EQ(node.take<QuiescentEvent>().how, Quiescence::kProved);
  node.compute_all_layers(prompt(2), {0, kTokens});
  EXPECT_EQ(node.find_fault(), "");
}

INSTANTIATE_TEST_SUITE_P(Providers, ProcessTest, ::testing::Values("tcp", "shm"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kvrail

int main(int argc, char** argv) {
  const std::string role = argc == 2 ? argv[1] : "";
  if (role == "decode" || role == "prefill") {
    const auto channel = kvrail::child_channel();
    return role == "decode" ? kvrail::decode_child(*channel) : kvrail::prefill_child(*channel);
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}

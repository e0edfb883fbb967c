#include "messenger/messenger_pair.h"
#include "messenger/raw_peer.h"

// A node that comes back counts its wire ids from the start again, beside what its former life has
// left, and says of them what it likes.

namespace kvrail {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class IncarnationTest : public ::testing::TestWithParam<bool> {
 protected:
  static KvNodeOptions options(bool prefills) {
    return MessengerPair::options("tcp", "node", prefills);
  }
  // Whether the former life is gone before the next one comes, or hangs on, as a stopped process
  // does.
  bool first_is_gone() const { return GetParam(); }

  PeerId join(KvNode& node, RawPeer& life, bool prefills) {
    life.connect(node.address());
    life.introduce(prefills, !prefills);
    return node.take_attached();
  }
  void end(KvNode& node, RawPeer& life) {
    life.close();
    node.take<PeerLostEvent>();
  }
  bool ignored(KvNode& node, std::uint64_t messages) {
    return poll_until([&] { return node.messenger().stats().messages_ignored == messages; });
  }

  RawPeer first_;
  RawPeer second_;
  const TestPrompt source_ = MessengerPair::prompt(1, 9, {3, 4});
  const TestPrompt target_ = MessengerPair::prompt(1, 9, {7, 2});
};

TEST_P(IncarnationTest, OfADecodeNode) {
  KvNode node(options(true));
  join(node, first_, false);
  first_.send(first_.request(1, "a"));
  const RequestId of_first = node.take<PrefillRequestedEvent>().request.id;
  if (first_is_gone()) {
    end(node, first_);
    node.take<CancelledEvent>();
    EXPECT_FALSE(node.take<PagesReleasedEvent>().result.ok());
  }
  join(node, second_, false);
  // Of the first life's request, which this one has never asked for.
  second_.send(ReceivedMessage{1});
  second_.send(RestartMessage{1, 0, {}});
  second_.send(CancelMessage{1, "it is mine"});
  EXPECT_THAT(second_.take<CancelAckMessage>().posted, IsEmpty());
  EXPECT_TRUE(ignored(node, 3));
  if (!first_is_gone()) {
    node.messenger().bind_pages(of_first, source_.pages, 9);
    EXPECT_TRUE(node.take<PagesReleasedEvent>().result.ok());
  }
  // The same wire id, in the life that it belongs to.
  second_.send(second_.request(2, "b"));
  const RequestId of_second = node.take<PrefillRequestedEvent>().request.id;
  EXPECT_NE(of_second, of_first);
  node.messenger().bind_pages(of_second, source_.pages, 9);
  EXPECT_TRUE(node.take<PagesReleasedEvent>().result.ok());
  EXPECT_THAT(node.pending(), IsEmpty());
}

TEST_P(IncarnationTest, OfAPrefillNode) {
  KvNode node(options(false));
  const PeerId old_peer = join(node, first_, true);
  const RequestId of_first = node.request(old_peer, "a", target_);
  const std::uint64_t wire_id = first_.take<PrefillRequestMessage>().wire_id;
  if (first_is_gone()) {
    end(node, first_);
    const auto failed = node.take<FailedEvent>();
    if (!failed.quiescent) node.take<QuiescentEvent>();
  }
  const PeerId new_peer = join(node, second_, true);
  EXPECT_NE(new_peer, old_peer);
  // What would end the request, had the first life said it. Two are answered, and all are counted.
  second_.send(PrefillRejectMessage{wire_id, "no"});
  second_.send(FailedMessage{wire_id, 0, ErrorCode::kFabric, "?", {}});
  second_.send(CancelAckMessage{wire_id, 0, {}, ""});
  EXPECT_EQ(second_.take<ReceivedMessage>().wire_id, wire_id);
  EXPECT_EQ(second_.take<ReceivedMessage>().wire_id, wire_id);
  EXPECT_TRUE(ignored(node, 3));
  EXPECT_THAT(node.pending(), IsEmpty());
  if (!first_is_gone()) {
    first_.send(PrefillRejectMessage{wire_id, "busy"});
    const auto failed = node.take<FailedEvent>();
    EXPECT_EQ(failed.request, of_first);
    EXPECT_THAT(failed.reason.text(), HasSubstr("busy"));
  }
  // Requests to the life that is gone are not taken for requests to this one.
  node.request(new_peer, "b", target_);
  EXPECT_NE(second_.take<PrefillRequestMessage>().wire_id, wire_id);
  if (first_is_gone()) {
    node.request(old_peer, "c", target_);
    EXPECT_THAT(node.take<FailedEvent>().reason.text(), HasSubstr("not attached"));
  }
}

INSTANTIATE_TEST_SUITE_P(Lives, IncarnationTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "FirstIsGone" : "FirstHangsOn";
                         });

}  // namespace
}  // namespace kvrail

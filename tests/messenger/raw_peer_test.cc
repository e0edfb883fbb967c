#include "messenger/raw_peer.h"

#include "messenger/messenger_pair.h"

// Peers that do not behave: silent, repetitive, late, or wrong.

namespace kvrail {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RawPeerTest : public ::testing::Test {
 protected:
  static KvNodeOptions options(const std::string& name, bool prefills) {
    return MessengerPair::options("tcp", name, prefills);
  }

  const TestPrompt source_ = MessengerPair::prompt(1, 9, {3, 4});
  const TestPrompt target_ = MessengerPair::prompt(1, 9, {7, 2});
};

TEST_F(RawPeerTest, DuplicateLateAndUnknownMessagesAreCountedAndIgnored) {
  KvNode node(options("p", true));
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(false, true);
  node.take_attached();
  const auto asked = raw.request(5, "a");
  raw.send(asked);
  raw.send(asked);
  const RequestId id = node.take<PrefillRequestedEvent>().request.id;
  for (const Message& message :
       {Message(ReceivedMessage{5}), Message(ReceivedMessage{77}),
        Message(FailedMessage{5, 0, ErrorCode::kFabric, "?", {}}),
        Message(PrefillRejectMessage{5, "?"}), Message(CancelAckMessage{9, 0, {}, ""}),
        Message(RestartMessage{9, 0, {}}), Message(CancelMessage{77, "?"}), Message(raw.hello()),
        Message(AttachedMessage{})}) {
    raw.send(message);
  }
  EXPECT_TRUE(poll_until([&] { return node.messenger().stats().messages_ignored == 10; }));
  node.messenger().bind_pages(id, source_.pages, 9);
  EXPECT_TRUE(node.take<PagesReleasedEvent>().result.ok());
  raw.send(ReceivedMessage{5});
  raw.send(ReceivedMessage{5});
  EXPECT_TRUE(poll_until([&] { return node.messenger().stats().messages_ignored == 11; }));
  EXPECT_THAT(node.pending(), IsEmpty());
  // The request was remembered until Received: now its names are free.
  raw.send(raw.request(5, "a"));
  node.take<PrefillRequestedEvent>();
}

TEST_F(RawPeerTest, RequestsThatDoNotFitAreRejected) {
  KvNode node(options("p", true));
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(false, true);
  const auto refusal = [&](const std::function<void(PrefillRequestMessage&)>& spoil) {
    auto message = raw.request(6, "a");
    spoil(message);
    raw.send(message);
    return raw.take<PrefillRejectMessage>().reason;
  };
  EXPECT_THAT(refusal([](auto& m) { m.pages = KvNode::pages({99, 1}); }), HasSubstr("page 99"));
  EXPECT_THAT(refusal([](auto& m) { m.pages = KvNode::pages({}); }), HasSubstr("pages"));
  EXPECT_THAT(refusal([](auto& m) { m.counters.clear(); }), HasSubstr("no counter"));
  EXPECT_THAT(refusal([](auto& m) { m.context_slot = ContextSlot(9); }), HasSubstr("slot 9"));
  EXPECT_FALSE(node.has<PrefillRequestedEvent>());
}

TEST_F(RawPeerTest, ADecodeNodeRejectsRequests) {
  KvNode node(options("d", false));
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(true, false);
  raw.send(raw.request(6, "a"));
  EXPECT_THAT(raw.take<PrefillRejectMessage>().reason, HasSubstr("does not prefill"));
}

TEST_F(RawPeerTest, SilenceIsLoss) {
  KvNodeOptions impatient = options("d", false);
  impatient.messenger.heartbeat_ms = 20;
  impatient.messenger.lost_after_ms = 200;
  KvNode node(impatient);
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(true, false);
  const PeerId peer = node.take_attached();
  node.request(peer, "a", target_);
  raw.take<PrefillRequestMessage>();
  const auto failed = node.take<FailedEvent>();
  EXPECT_EQ(failed.reason.code(), ErrorCode::kPeerLost);
  EXPECT_THAT(failed.reason.text(), HasSubstr("nothing came from it for 200 ms"));
  EXPECT_FALSE(failed.quiescent);
  EXPECT_EQ(node.take<QuiescentEvent>().how, Quiescence::kProved);
  node.take<PeerLostEvent>();
  EXPECT_EQ(raw.take<GoodbyeMessage>().code, ErrorCode::kDeadline);
}

TEST_F(RawPeerTest, ALeaseThatRunsOutIsLoss) {
  KvNode node(options("p", true));
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(false, true);
  node.take_attached();
  raw.send(raw.request(5, "a"));
  node.take<PrefillRequestedEvent>();
  // It hears nothing from here, it says, and will soon give up.
  raw.send(HeartbeatMessage{1});
  EXPECT_THAT(node.take<CancelledEvent>().reason.text(),
              HasSubstr("the time for which it keeps this node has run out"));
  EXPECT_EQ(node.take<PagesReleasedEvent>().result.code(), ErrorCode::kPeerLost);
}

TEST_F(RawPeerTest, HeartbeatsKeepAPeer) {
  KvNodeOptions impatient = options("one", true);
  impatient.messenger.heartbeat_ms = 20;
  impatient.messenger.lost_after_ms = 400;
  KvNode prefill(impatient);
  impatient = options("two", false);
  impatient.messenger.heartbeat_ms = 20;
  impatient.messenger.lost_after_ms = 400;
  KvNode decode(impatient);
  decode.messenger().connect(prefill.address());
  decode.take_attached();
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(1000), [&] {
    return !decode.has<PeerLostEvent>() && !prefill.has<PeerLostEvent>();
  }));
}

TEST_F(RawPeerTest, FailedWaitsForWhatWasPosted) {
  KvNode node(options("d", false));
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(true, false);
  const PeerId peer = node.take_attached();
  const RequestId id = node.request(peer, "a", target_);
  const auto asked = raw.take<PrefillRequestMessage>();
  // It says that it has posted what never comes: the peer's links are closed in the end.
  FailedMessage failed{asked.wire_id, 0, ErrorCode::kCancelled, "no more", {{DeviceGroupId(0), 1}}};
  raw.send(failed);
  raw.send(failed);
  const auto told = node.take<FailedEvent>();
  EXPECT_EQ(told.request, id);
  EXPECT_EQ(told.reason.code(), ErrorCode::kCancelled);
  EXPECT_FALSE(told.quiescent);
  raw.close();
  EXPECT_EQ(node.take<QuiescentEvent>().how, Quiescence::kProved);
  node.take<PeerLostEvent>();
  EXPECT_THAT(node.pending(), IsEmpty());
}

TEST_F(RawPeerTest, UnitsThatWerePostedAndNeverArriveLoseThePeer) {
  KvNodeOptions impatient = options("d", false);
  impatient.messenger.heartbeat_ms = 20;
  impatient.messenger.lost_after_ms = 100;
  KvNode node(impatient);
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(true, false);
  const PeerId peer = node.take_attached();
  node.request(peer, "a", target_);
  const auto asked = raw.take<PrefillRequestMessage>();
  raw.send(FailedMessage{asked.wire_id, 0, ErrorCode::kFabric, "lost", {{DeviceGroupId(0), 1}}});
  EXPECT_FALSE(node.take<FailedEvent>().quiescent);
  EXPECT_EQ(node.take<QuiescentEvent>().how, Quiescence::kProved);
}

TEST_F(RawPeerTest, FailedWithMoreThanCanBePostedLosesThePeer) {
  KvNode node(options("d", false));
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(true, false);
  node.request(node.take_attached(), "a", target_);
  const auto asked = raw.take<PrefillRequestMessage>();
  raw.send(
      FailedMessage{asked.wire_id, 0, ErrorCode::kFabric, "lost", {{DeviceGroupId(0), 1u << 30}}});
  const auto failed = node.take<FailedEvent>();
  EXPECT_EQ(failed.reason.code(), ErrorCode::kPeerLost);
  EXPECT_THAT(failed.reason.text(), HasSubstr("more than it expects"));
  EXPECT_EQ(node.take<QuiescentEvent>().how, Quiescence::kProved);
}

TEST_F(RawPeerTest, ManyPeersComeAndGo) {
  KvNode node(options("p", true));
  for (int i = 0; i < scaled(16); ++i) {
    RawPeer raw;
    raw.connect(node.address());
    raw.introduce(false, true);
    node.take_attached();
    raw.send(raw.request(5, "a"));
    node.take<PrefillRequestedEvent>();
    raw.close();
    EXPECT_EQ(node.take<CancelledEvent>().reason.code(), ErrorCode::kPeerLost);
    EXPECT_EQ(node.take<PagesReleasedEvent>().result.code(), ErrorCode::kPeerLost);
    node.take<PeerLostEvent>();
  }
  EXPECT_EQ(node.messenger().stats().peers_attached, 0u);
  EXPECT_TRUE(poll_until([&] { return node.messenger().stats().fabric.peers.empty(); }));
}

}  // namespace
}  // namespace kvrail

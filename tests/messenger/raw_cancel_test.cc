#include "messenger/messenger_pair.h"
#include "messenger/raw_peer.h"

// Cancellations against peers that answer wrongly, late, twice, or not at all.

namespace kvrail {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RawCancelTest : public ::testing::Test {
 protected:
  // A decode node, and a prefill node played by hand.
  struct Asked {
    explicit Asked(std::uint32_t lost_after_ms = 60'000)
        : node([&] {
            KvNodeOptions options = MessengerPair::options("tcp", "d", false);
            options.messenger.lost_after_ms = lost_after_ms;
            options.messenger.heartbeat_ms = 20;
            return options;
          }()) {
      raw.connect(node.address());
      raw.introduce(true, false);
      peer = node.take_attached();
      request = node.request(peer, "a", MessengerPair::prompt(1, 9, {7, 2}));
      asked = raw.take<PrefillRequestMessage>();
    }
    void cancel() {
      node.messenger().cancel(request, "the user left");
      EXPECT_FALSE(node.take<FailedEvent>().quiescent);
      const auto message = raw.take<CancelMessage>();
      EXPECT_EQ(message.wire_id, asked.wire_id);
      EXPECT_THAT(message.reason, HasSubstr("the user left"));
    }
    // The peer goes on sending heartbeats.
    bool stays_alive_until_quiescent() {
      return poll_until([&] {
        raw.send(HeartbeatMessage{60'000});
        return node.has<QuiescentEvent>();
      });
    }
    void expect_fenced(const std::string& why) {
      EXPECT_EQ(node.take<QuiescentEvent>().how, Quiescence::kProved);
      EXPECT_THAT(node.take<PeerLostEvent>().reason.text(), HasSubstr(why));
      EXPECT_THAT(node.pending(), IsEmpty());
    }

    KvNode node;
    RawPeer raw;
    PeerId peer;
    RequestId request;
    PrefillRequestMessage asked;
  };
};

TEST_F(RawCancelTest, NothingPostedIsQuiescentAtOnce) {
  Asked asked;
  asked.cancel();
  asked.raw.send(CancelAckMessage{asked.asked.wire_id, 0, {}, ""});
  EXPECT_EQ(asked.node.take<QuiescentEvent>().how, Quiescence::kCounted);
  EXPECT_EQ(asked.raw.take<ReceivedMessage>().wire_id, asked.asked.wire_id);
  // Twice: it is forgotten by now, which is said again.
  asked.raw.send(CancelAckMessage{asked.asked.wire_id, 0, {}, ""});
  EXPECT_EQ(asked.raw.take<ReceivedMessage>().wire_id, asked.asked.wire_id);
  EXPECT_EQ(asked.node.messenger().stats().messages_ignored, 1u);
}

TEST_F(RawCancelTest, PostedUnitsThatNeverComeLeadToTheFence) {
  Asked asked(300);
  asked.cancel();
  asked.raw.send(CancelAckMessage{asked.asked.wire_id, 0, {{DeviceGroupId(0), 1}}, ""});
  EXPECT_TRUE(asked.stays_alive_until_quiescent());
  asked.expect_fenced("have not arrived within 300 ms");
}

TEST_F(RawCancelTest, NoAnswerLeadsToTheFence) {
  Asked asked(300);
  asked.cancel();
  EXPECT_TRUE(asked.stays_alive_until_quiescent());
  asked.expect_fenced("its cancellation was not answered within 300 ms");
}

TEST_F(RawCancelTest, MoreUnitsThanThereCanBeLeadToTheFence) {
  Asked asked;
  asked.cancel();
  asked.raw.send(CancelAckMessage{asked.asked.wire_id, 0, {{DeviceGroupId(0), 1u << 30}}, ""});
  asked.expect_fenced("more than it expects");
}

TEST_F(RawCancelTest, ThePeerDiesInsteadOfAnswering) {
  Asked asked;
  asked.cancel();
  asked.raw.close();
  EXPECT_EQ(asked.node.take<QuiescentEvent>().how, Quiescence::kProved);
}

TEST_F(RawCancelTest, ARejectOrAFailureThatCrossesTheCancelIsItsAnswer) {
  {
    Asked asked;
    asked.cancel();
    asked.raw.send(PrefillRejectMessage{asked.asked.wire_id, "full"});
    EXPECT_EQ(asked.node.take<QuiescentEvent>().how, Quiescence::kCounted);
  }
  Asked asked;
  asked.cancel();
  asked.raw.send(FailedMessage{asked.asked.wire_id, 0, ErrorCode::kStepFailed, "step 3", {}});
  EXPECT_EQ(asked.node.take<QuiescentEvent>().how, Quiescence::kCounted);
  EXPECT_EQ(asked.raw.take<ReceivedMessage>().wire_id, asked.asked.wire_id);
}

TEST_F(RawCancelTest, ACancelOfSomethingNeverSeenRefusesItWhenItComes) {
  KvNode node(MessengerPair::options("tcp", "p", true));
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(false, true);
  raw.send(CancelMessage{5, "?"});
  const auto ack = raw.take<CancelAckMessage>();
  EXPECT_EQ(ack.wire_id, 5u);
  EXPECT_THAT(ack.posted, IsEmpty());
  raw.send(raw.request(5, "a"));
  EXPECT_THAT(raw.take<PrefillRejectMessage>().reason, HasSubstr("cancelled before it came"));
  EXPECT_FALSE(node.has<PrefillRequestedEvent>());
}

TEST_F(RawCancelTest, AFinishedRequestIsRememberedUntilReceived) {
  KvNode node(MessengerPair::options("tcp", "p", true));
  RawPeer raw;
  raw.connect(node.address());
  raw.introduce(false, true);
  raw.send(raw.request(5, "a"));
  const RequestId id = node.take<PrefillRequestedEvent>().request.id;
  node.messenger().bind_pages(id, KvNode::pages({3, 4}), 9);
  const auto released = node.take<PagesReleasedEvent>();
  ASSERT_TRUE(released.result.ok());
  for (int times = 0; times < 2; ++times) {
    raw.send(CancelMessage{5, "?"});
    const auto ack = raw.take<CancelAckMessage>();
    ASSERT_EQ(ack.posted.size(), 1u);
    EXPECT_EQ(ack.posted[0].units, released.report.units);
  }
  raw.send(ReceivedMessage{5});
  raw.send(CancelMessage{5, "?"});
  EXPECT_THAT(raw.take<CancelAckMessage>().posted, IsEmpty());
  EXPECT_FALSE(node.has<CancelledEvent>());
}

}  // namespace
}  // namespace kvrail

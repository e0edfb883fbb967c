#include "kvrail/event_queue.h"

#include <poll.h>

#include <gtest/gtest.h>

#include <thread>

namespace kvrail {
namespace {

bool readable(const EventQueue& queue) {
  pollfd entry{queue.descriptor(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(EventQueue, IsReadableIfAndOnlyIfEventsWait) {
  EventQueue queue;
  EXPECT_FALSE(readable(queue));
  EXPECT_FALSE(queue.poll());
  queue.decode()->on_quiescent(RequestId(1), Quiescence::kProved);
  queue.decode()->on_quiescent(RequestId(2), Quiescence::kCounted);
  EXPECT_TRUE(readable(queue));
  EXPECT_TRUE(queue.poll());
  EXPECT_TRUE(readable(queue));
  EXPECT_TRUE(queue.poll());
  EXPECT_FALSE(readable(queue));
  EXPECT_FALSE(queue.poll());
  queue.decode()->on_ready(RequestId(3), {});
  EXPECT_TRUE(readable(queue));
}

TEST(EventQueue, KeepsEveryCallInOrder) {
  EventQueue queue;
  PrefillScheduler& prefill = *queue.prefill();
  DecodeScheduler& decode = *queue.decode();
  const Status reason(ErrorCode::kPeerLost, "gone");
  PrefillRequest request;
  request.id = RequestId(1);
  request.external_id = "a";
  SendReport sent;
  sent.units = 7;
  ReceiveReport received;
  received.units = 9;

  prefill.on_peer_attached(PeerId(1), "d");
  prefill.on_prefill_request(request);
  prefill.on_cancelled(RequestId(1), reason);
  prefill.on_pages_released(RequestId(1), reason, sent);
  decode.on_ready(RequestId(2), received);
  decode.on_failed(RequestId(3), reason, false, {{CacheGroupIndex(0), {PageIndex(4)}}});
  decode.on_quiescent(RequestId(3), Quiescence::kProved);
  prefill.on_peer_lost(PeerId(1), "d", reason);

  EXPECT_EQ(std::get<PeerAttachedEvent>(queue.poll().value()).peer_name, "d");
  EXPECT_EQ(std::get<PrefillRequestedEvent>(queue.poll().value()).request.external_id, "a");
  EXPECT_EQ(std::get<CancelledEvent>(queue.poll().value()).reason.code(), ErrorCode::kPeerLost);
  const auto released = std::get<PagesReleasedEvent>(queue.poll().value());
  EXPECT_EQ(released.result.text(), "gone");
  EXPECT_EQ(released.report.units, 7u);
  EXPECT_EQ(std::get<ReadyEvent>(queue.poll().value()).report.units, 9u);
  const auto failed = std::get<FailedEvent>(queue.poll().value());
  EXPECT_FALSE(failed.quiescent);
  EXPECT_EQ(failed.missing.at(0).pages.at(0), PageIndex(4));
  EXPECT_EQ(std::get<QuiescentEvent>(queue.poll().value()).how, Quiescence::kProved);
  EXPECT_EQ(std::get<PeerLostEvent>(queue.poll().value()).reason.text(), "gone");
  EXPECT_FALSE(queue.poll());
}

TEST(EventQueue, TellsOfPeersOnceWhereBothSidesAreUsed) {
  EventQueue queue;
  PrefillScheduler& prefill = *queue.prefill();
  DecodeScheduler& decode = *queue.decode();
  prefill.on_peer_attached(PeerId(1), "x");
  decode.on_peer_attached(PeerId(1), "x");
  EXPECT_TRUE(queue.poll());
  EXPECT_FALSE(queue.poll());
}

TEST(EventQueue, TellsOfPeersThroughDecodeAlone) {
  EventQueue queue;
  queue.decode()->on_peer_attached(PeerId(1), "x");
  queue.decode()->on_peer_lost(PeerId(1), "x", Status(ErrorCode::kPeerLost, "gone"));
  EXPECT_TRUE(queue.poll());
  EXPECT_TRUE(queue.poll());
  EXPECT_FALSE(queue.poll());
}

TEST(EventQueue, WakesAThreadThatWaits) {
  EventQueue queue;
  std::thread waiter([&] {
    for (int events = 0; events < 1000;) {
      pollfd entry{queue.descriptor(), POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 20'000), 1);
      while (queue.poll()) ++events;
    }
  });
  for (std::uint64_t i = 0; i < 1000; ++i) queue.decode()->on_ready(RequestId(i), {});
  waiter.join();
}

}  // namespace
}  // namespace kvrail

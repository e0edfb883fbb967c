#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "wire/loop_support.h"
#include "wire/sample_messages.h"

namespace kvrail {
namespace {

std::vector<Message> sample_messages(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<Message> messages;
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back(sample_message(random() % kMessageKinds, random));
  }
  return messages;
}

// A stream between two loops.
class StreamExchangeTest : public testing::Test {
 protected:
  void SetUp() override {
    Connected connected = connect_to(loop_, acceptor_.address());
    ASSERT_TRUE(connected.status.ok()) << connected.status.text();
    stream_ = connected.stream;
    run_on(loop_, [&] { stream_->start(record_.handlers()); });
    ASSERT_TRUE(acceptor_.wait_for_streams(1));
    peer_ = acceptor_.stream(0);
  }
  StreamRecord& peer_record() { return acceptor_.record(0); }

  StreamRecord record_;
  Acceptor acceptor_;
  ControlLoop loop_{ControlLimits{}};
  std::shared_ptr<ControlStream> stream_;
  std::shared_ptr<ControlStream> peer_;
};

TEST_F(StreamExchangeTest, TenThousandMessagesArriveInOrderBothWays) {
  const auto there = sample_messages(1, 10'000);
  const auto back = sample_messages(2, 10'000);
  // In portions, so that some meet an idle stream and some a busy one.
  for (std::size_t first = 0; first < there.size(); first += 500) {
    loop_.post([&, first] {
      for (std::size_t i = first; i < first + 500; ++i) stream_->send(there[i]);
    });
    acceptor_.loop().post([&, first] {
      for (std::size_t i = first; i < first + 500; ++i) peer_->send(back[i]);
    });
  }
  ASSERT_TRUE(record_.wait_for_messages(back.size()));
  ASSERT_TRUE(peer_record().wait_for_messages(there.size()));
  EXPECT_TRUE(record_.messages() == back);
  EXPECT_TRUE(peer_record().messages() == there);
  EXPECT_FALSE(record_.loss());
  EXPECT_FALSE(peer_record().loss());
}

TEST_F(StreamExchangeTest, LargeMessages) {
  const AttachedMessage large{.fabric_confirm = std::vector<std::byte>(8u << 20, std::byte{3})};
  run_on(loop_, [&] {
    for (int i = 0; i < 4; ++i) {
      stream_->send(large);
      stream_->send(ReceivedMessage{.wire_id = static_cast<std::uint64_t>(i)});
    }
  });
  ASSERT_TRUE(peer_record().wait_for_messages(8));
  const auto messages = peer_record().messages();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(messages[2 * i] == Message(large));
    EXPECT_TRUE(messages[2 * i + 1] == Message(ReceivedMessage{.wire_id = i}));
  }
}

TEST_F(StreamExchangeTest, AddressesAndTimes) {
  EXPECT_EQ(stream_->remote_address(), acceptor_.address());
  EXPECT_THAT(peer_->remote_address(), testing::StartsWith("127.0.0.1:"));
  std::int64_t before_send = 0;
  std::int64_t before_receive = 0;
  run_on(acceptor_.loop(), [&] { before_receive = peer_->last_received_ns(); });
  run_on(loop_, [&] {
    before_send = stream_->last_sent_ns();
    EXPECT_GT(before_send, 0);
    stream_->send(HeartbeatMessage{.remaining_ms = 1});
    EXPECT_GT(stream_->last_sent_ns(), before_send);
  });
  ASSERT_TRUE(peer_record().wait_for_messages(1));
  run_on(acceptor_.loop(), [&] { EXPECT_GT(peer_->last_received_ns(), before_receive); });
}

TEST_F(StreamExchangeTest, WakesThatHaveNotLeftAreOne) {
  for (std::size_t round = 1; round <= 20; ++round) {
    run_on(loop_, [&] {
      std::thread([&] {
        for (int i = 0; i < 1000; ++i) stream_->send_wake();
      }).join();
    });
    ASSERT_TRUE(peer_record().wait_for_messages(round));
    run_on(loop_, [&] { stream_->send(ReceivedMessage{.wire_id = round}); });
    ++round;
    ASSERT_TRUE(peer_record().wait_for_messages(round));
    EXPECT_EQ(peer_record().messages().size(), round);
  }
}

// The peer learns of everything that was published before a send_wake().
TEST_F(StreamExchangeTest, NoWakeIsLost) {
  constexpr int kThreads = 3;
  constexpr std::uint64_t kEach = 3000;
  std::array<std::atomic<std::uint64_t>, kThreads> published{};
  std::array<std::atomic<std::uint64_t>, kThreads> seen{};
  ControlLoop watching{ControlLimits{}};
  const auto connected = connect_to(watching, acceptor_.address());
  ASSERT_TRUE(connected.status.ok());
  run_on(watching, [&] {
    connected.stream->start({.on_message =
                                 [&](const Message&) {
                                   for (int i = 0; i < kThreads; ++i) {
                                     seen[i] = published[i].load(std::memory_order_relaxed);
                                   }
                                 },
                             .on_lost = [](const Status&) {}});
  });
  ASSERT_TRUE(acceptor_.wait_for_streams(2));
  const auto waking = acceptor_.stream(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        published[t].store(i, std::memory_order_relaxed);
        waking->send_wake();
        if (i % 100 != 0) continue;
        const auto until = std::chrono::steady_clock::now() + kPatience;
        while (seen[t] < i && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        ASSERT_GE(seen[t], i) << "the last wake never came";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A peer that does not read is woken once, however often it is tried.
TEST(BlockedStreamTest, WakesDoNotPileUp) {
  Acceptor acceptor;
  RawClient client(acceptor.address());
  ASSERT_TRUE(acceptor.wait_for_streams(1));
  const auto stream = acceptor.stream(0);
  const AttachedMessage filler{.fabric_confirm = std::vector<std::byte>(1u << 20)};
  constexpr std::size_t kFillers = 64;
  run_on(acceptor.loop(), [&] {
    for (std::size_t i = 0; i < kFillers; ++i) stream->send(filler);
  });
  for (int i = 0; i < 300; ++i) {
    stream->send_wake();
    run_on(acceptor.loop(), [] {});
  }
  run_on(acceptor.loop(), [&] { stream->send(ReceivedMessage{.wire_id = 77}); });
  const auto wake = frame_of(WakeMessage{});
  const auto last = frame_of(ReceivedMessage{.wire_id = 77});
  const std::size_t before = kFillers * frame_of(filler).size();
  ASSERT_EQ(client.receive(before).size(), before);
  EXPECT_EQ(client.receive(wake.size()), wake);
  EXPECT_EQ(client.receive(last.size()), last);
}

}  // namespace
}  // namespace kvrail

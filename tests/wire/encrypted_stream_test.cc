// Encrypted control streams: where exactly encryption begins, and what ends the stream.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/codec.h"
#include "wire/loop_support.h"
#include "wire/sample_messages.h"
#include "wire/sealed_frames.h"

namespace kvrail {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// Of the end that accepts; the other one has them the other way round.
StreamKeys acceptor_keys() { return {.send = secret_of(2), .receive = secret_of(1)}; }
StreamKeys initiator_keys() { return {.send = secret_of(1), .receive = secret_of(2)}; }

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(EncryptedStreamTest, CarriesEverythingBothWays) {
  Acceptor acceptor;
  StreamRecord record;
  ControlLoop loop{ControlLimits{}};
  const Connected here = connect_to(loop, acceptor.address());
  ASSERT_TRUE(here.status.ok()) << here.status.text();
  ASSERT_TRUE(acceptor.wait_for_streams(1));
  run_on(acceptor.loop(), [&] { acceptor.stream(0)->encrypt(acceptor_keys()); });
  run_on(loop, [&] {
    here.stream->encrypt(initiator_keys());
    here.stream->start(record.handlers());
  });
  Random random(3);
  std::vector<Message> messages;
  for (int i = 0; i < 400; ++i) {
    messages.push_back(sample_message(random() % kMessageKinds, random));
    run_on(loop, [&] { here.stream->send(messages.back()); });
    run_on(acceptor.loop(), [&] { acceptor.stream(0)->send(messages.back()); });
  }
  ASSERT_TRUE(record.wait_for_messages(messages.size()));
  ASSERT_TRUE(acceptor.record(0).wait_for_messages(messages.size()));
  EXPECT_TRUE(record.messages() == messages);
  EXPECT_TRUE(acceptor.record(0).messages() == messages);

  here.stream->send_wake();
  ASSERT_TRUE(acceptor.record(0).wait_for_messages(messages.size() + 1));
  EXPECT_EQ(acceptor.record(0).messages().back(), Message(WakeMessage{}));
}

// Speaks like an acceptor: hears a Received in clear, answers it in clear, and encrypts from there.
class SwitchTest : public testing::Test {
 protected:
  SwitchTest() {
    address_ = loop_->listen("127.0.0.1:0", [this](std::shared_ptr<ControlStream> stream) {
      ControlStream::Handlers handlers = record_.handlers();
      handlers.on_message = [this, stream = stream.get(),
                             note = handlers.on_message](const Message& message) {
        note(message);
        if (switched_) return;
        switched_ = true;
        stream->send(ReceivedMessage{.wire_id = 100});
        stream->encrypt(acceptor_keys());
        stream->send(ReceivedMessage{.wire_id = 101});
      };
      stream->start(std::move(handlers));
    });
  }

  StreamRecord record_;
  bool switched_ = false;
  std::unique_ptr<ControlLoop> loop_ = std::make_unique<ControlLoop>(ControlLimits{});
  std::string address_;
};

TEST_F(SwitchTest, IsBetweenTheMessageHandledAndTheNext) {
  RawClient client(address_);
  FrameCipher seal_here(secret_of(1));
  const Message first = ReceivedMessage{.wire_id = 1};
  const Message second = ReceivedMessage{.wire_id = 2};
  // In one write: the second is in the buffer before encryption begins.
  Bytes bytes = frame_of(first);
  bytes = bytes + seal(seal_here, encode(second));
  bytes = bytes + seal(seal_here, encode(first));
  ASSERT_TRUE(client.send(bytes));
  ASSERT_TRUE(record_.wait_for_messages(3));
  EXPECT_EQ(record_.messages(), (std::vector{first, second, first}));

  const Bytes in_clear = frame_of(ReceivedMessage{.wire_id = 100});
  EXPECT_EQ(client.receive(in_clear.size()), in_clear);
  Bytes sealed = client.receive(in_clear.size() + FrameCipher::kTagBytes);
  FrameCipher open_there(secret_of(2));
  ASSERT_TRUE(open_there.open(sealed));
  sealed.resize(sealed.size() - FrameCipher::kTagBytes);
  EXPECT_EQ(decode(std::span(sealed).subspan(kFrameHeaderBytes)),
            Message(ReceivedMessage{.wire_id = 101}));
}

TEST_F(SwitchTest, NothingInClearIsTakenAfterIt) {
  RawClient client(address_);
  const Bytes frame = frame_of(ReceivedMessage{.wire_id = 1});
  ASSERT_TRUE(client.send(frame + frame));
  ASSERT_TRUE(record_.wait_for_loss());
  EXPECT_EQ(record_.loss()->code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(record_.loss()->text(), HasSubstr("different pre-shared keys"));
  EXPECT_EQ(record_.messages().size(), 1u);
}

class TamperingTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kMaxBytes = 1000;

  // Sends `bytes` on an encrypted stream of its own; returns why it was lost, and leaves what came.
  Status loss_after(const Bytes& bytes) {
    RawClient client(acceptor_.address());
    EXPECT_TRUE(acceptor_.wait_for_streams(++connections_));
    StreamRecord& record = acceptor_.record(connections_ - 1);
    run_on(acceptor_.loop(), [&] { acceptor_.stream(connections_ - 1)->encrypt(acceptor_keys()); });
    client.send(bytes);
    EXPECT_TRUE(record.wait_for_loss());
    messages_ = record.messages();
    return record.loss().value_or(Status());
  }

  static std::vector<Bytes> frames() {
    FrameCipher cipher(secret_of(1));
    std::vector<Bytes> frames;
    for (std::uint64_t i = 0; i < 3; ++i) {
      frames.push_back(seal(cipher, encode(ReceivedMessage{.wire_id = i})));
    }
    return frames;
  }

  static ControlLimits limits() {
    ControlLimits limits;
    limits.max_message_bytes = kMaxBytes;
    return limits;
  }

  Acceptor acceptor_{limits()};
  std::size_t connections_ = 0;
  std::vector<Message> messages_;
};

TEST_F(TamperingTest, EveryBitThatIsFlippedEndsTheStream) {
  const Bytes frame = frames()[0];
  // Enough to follow for any length that is allowed.
  const Bytes more(kMaxBytes + 100);
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    Bytes changed = frame;
    changed[bit / 8] ^= std::byte(1u << bit % 8);
    const Status loss = loss_after(changed + more);
    EXPECT_EQ(loss.code(), bit < 32 && loss.code() != ErrorCode::kUnauthenticated
                               ? ErrorCode::kMalformed
                               : ErrorCode::kUnauthenticated)
        << bit << ": " << loss.text();
    EXPECT_TRUE(messages_.empty()) << bit;
  }
}

TEST_F(TamperingTest, FramesOutOfOrderRepeatedOrLeftOutEndTheStream) {
  const auto f = frames();
  const auto expect_loss = [&](const Bytes& bytes, std::size_t good) {
    const Status loss = loss_after(bytes);
    EXPECT_EQ(loss.code(), ErrorCode::kUnauthenticated) << loss.text();
    EXPECT_EQ(messages_.size(), good);
    EXPECT_THAT(loss.text(), HasSubstr(good > 0 ? "changed, repeated or left out"
                                                : "different pre-shared keys"));
  };
  expect_loss(f[1] + f[0], 0);
  expect_loss(f[0] + f[2], 1);
  expect_loss(f[0] + f[0], 1);
  expect_loss(f[0] + f[1] + f[1], 2);
  // A byte left out, of the first frame or between two.
  expect_loss(Bytes(f[0].begin(), f[0].end() - 1) + f[1] + f[2], 0);
}

TEST_F(TamperingTest, WhatWasSealedForTheOtherDirectionIsRefused) {
  FrameCipher theirs(secret_of(2));
  EXPECT_EQ(loss_after(seal(theirs, encode(WakeMessage{}))).code(), ErrorCode::kUnauthenticated);
}

TEST_F(TamperingTest, LimitsHoldForTheMessageAsInClear) {
  const auto message_of = [](std::size_t size) {
    Bytes message = encode(AttachedMessage{.fabric_confirm = Bytes(size)});
    return message;
  };
  const std::size_t overhead = message_of(400).size() - 400;
  FrameCipher cipher(secret_of(1));
  const Bytes fits = message_of(kMaxBytes - overhead);
  ASSERT_EQ(fits.size(), kMaxBytes);
  const Bytes first = seal(cipher, fits);
  const Status loss = loss_after(first + seal(cipher, fits + Bytes(4)));
  EXPECT_EQ(messages_.size(), 1u);
  EXPECT_EQ(loss.code(), ErrorCode::kMalformed);
  EXPECT_THAT(loss.text(), HasSubstr("28 to 1016"));
}

TEST(MessageLimitTest, ChangesFromOneMessageToTheNext) {
  Acceptor acceptor;
  RawClient client(acceptor.address());
  ASSERT_TRUE(acceptor.wait_for_streams(1));
  run_on(acceptor.loop(), [&] { acceptor.stream(0)->set_max_message_bytes(100); });
  const Bytes large = frame_of(AttachedMessage{.fabric_confirm = Bytes(100)});
  ASSERT_TRUE(client.send(frame_of(WakeMessage{})));
  ASSERT_TRUE(acceptor.record(0).wait_for_messages(1));
  run_on(acceptor.loop(), [&] { acceptor.stream(0)->set_max_message_bytes(1000); });
  ASSERT_TRUE(client.send(large));
  ASSERT_TRUE(acceptor.record(0).wait_for_messages(2));
  run_on(acceptor.loop(), [&] { acceptor.stream(0)->set_max_message_bytes(100); });
  ASSERT_TRUE(client.send(large));
  ASSERT_TRUE(acceptor.record(0).wait_for_loss());
  EXPECT_EQ(acceptor.record(0).loss()->code(), ErrorCode::kMalformed);
  EXPECT_EQ(acceptor.stream(0)->frame_fault(), FrameFault::kHugeLength);
}

TEST(AcceptRateTest, WhoComesTooOftenWaits) {
  ControlLimits limits;
  limits.max_accepts_per_second = 40;  // and 20 at once
  const auto start = std::chrono::steady_clock::now();
  Acceptor acceptor(limits);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 30; ++i) clients.push_back(std::make_unique<RawClient>(acceptor.address()));
  ASSERT_TRUE(acceptor.wait_for_streams(30));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(240));
}

}  // namespace
}  // namespace kvrail

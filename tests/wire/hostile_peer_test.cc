// Whatever arrives on the port: slowly, in pieces, all at once, or from something else altogether.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/frame_reader.h"
#include "wire/loop_support.h"
#include "wire/sample_messages.h"

namespace kvrail {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<std::byte> operator+(std::vector<std::byte> a, const std::vector<std::byte>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Frames of `count` random messages, which are left in `messages`.
std::vector<std::byte> sample_frames(std::size_t count, std::vector<Message>& messages) {
  Random random(count);
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back(sample_message(random() % kMessageKinds, random));
    bytes = bytes + frame_of(messages.back());
  }
  return bytes;
}

class HostilePeerTest : public testing::Test {
 protected:
  // Sends `bytes` on a connection of its own; returns why it was lost.
  Status loss_after(std::span<const std::byte> bytes) {
    const std::size_t index = connections_++;
    RawClient client(acceptor_.address());
    client.send(bytes);
    if (!acceptor_.wait_for_streams(index + 1)) return {ErrorCode::kDeadline, "not accepted"};
    if (!acceptor_.record(index).wait_for_loss()) return {ErrorCode::kDeadline, "not lost"};
    EXPECT_TRUE(client.wait_for_end());
    EXPECT_TRUE(acceptor_.record(index).messages().empty());
    return *acceptor_.record(index).loss();
  }
  Status loss_after(const std::string& text) { return loss_after(std::as_bytes(std::span(text))); }

  Acceptor acceptor_;
  std::size_t connections_ = 0;
};

TEST_F(HostilePeerTest, ByteByByte) {
  std::vector<Message> messages;
  const auto bytes = sample_frames(8, messages);
  RawClient client(acceptor_.address());
  for (const std::byte byte : bytes) ASSERT_TRUE(client.send(std::span(&byte, 1)));
  ASSERT_TRUE(acceptor_.wait_for_streams(1));
  ASSERT_TRUE(acceptor_.record(0).wait_for_messages(messages.size()));
  EXPECT_TRUE(acceptor_.record(0).messages() == messages);
}

TEST_F(HostilePeerTest, FramesCutAnywhere) {
  std::vector<Message> messages;
  const auto bytes = sample_frames(2, messages);
  for (std::size_t cut = 1; cut < bytes.size(); cut += 3) {
    RawClient client(acceptor_.address());
    ASSERT_TRUE(client.send(std::span(bytes).first(cut)));
    ASSERT_TRUE(client.send(std::span(bytes).subspan(cut)));
    ASSERT_TRUE(acceptor_.wait_for_streams(connections_ + 1));
    StreamRecord& record = acceptor_.record(connections_++);
    ASSERT_TRUE(record.wait_for_messages(messages.size()));
    EXPECT_TRUE(record.messages() == messages) << cut;
  }
}

TEST_F(HostilePeerTest, ManyFramesAtOnce) {
  std::vector<Message> messages;
  const auto bytes = sample_frames(2000, messages);
  RawClient client(acceptor_.address());
  ASSERT_TRUE(client.send(bytes));
  ASSERT_TRUE(acceptor_.wait_for_streams(1));
  ASSERT_TRUE(acceptor_.record(0).wait_for_messages(messages.size()));
  EXPECT_TRUE(acceptor_.record(0).messages() == messages);
}

TEST_F(HostilePeerTest, OtherProtocols) {
  const Status http = loss_after("GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n");
  EXPECT_EQ(http.code(), ErrorCode::kMalformed);
  EXPECT_THAT(http.text(), AllOf(HasSubstr("127.0.0.1:"), HasSubstr("looks like an HTTP request")));

  std::string tls("\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03", 11);
  tls.resize(245, 'r');
  const Status handshake = loss_after(tls);
  EXPECT_EQ(handshake.code(), ErrorCode::kMalformed);
  EXPECT_THAT(handshake.text(), HasSubstr("looks like a TLS handshake"));
}

TEST_F(HostilePeerTest, HostileLengths) {
  for (const std::uint32_t length : {0u, 11u, (16u << 20) + 1, 0x80000000u, ~0u}) {
    std::vector<std::byte> bytes(kFrameHeaderBytes);
    put_frame_length(bytes.data(), length);
    const Status loss = loss_after(bytes);
    EXPECT_EQ(loss.code(), ErrorCode::kMalformed);
    EXPECT_THAT(loss.text(), HasSubstr("a frame of " + std::to_string(length) + " bytes"));
  }
}

TEST_F(HostilePeerTest, AFrameThatDoesNotDecode) {
  auto bytes = frame_of(WakeMessage{});
  bytes[kFrameHeaderBytes] = std::byte{0xff};  // the offset of the root
  const Status loss = loss_after(bytes);
  EXPECT_EQ(loss.code(), ErrorCode::kMalformed);
  EXPECT_THAT(loss.text(), HasSubstr("malformed"));
}

TEST_F(HostilePeerTest, MessagesBeforeTheFaultAreDelivered) {
  const Message good = ReceivedMessage{.wire_id = 9};
  RawClient client(acceptor_.address());
  ASSERT_TRUE(client.send(frame_of(good) + std::vector<std::byte>(100)));
  ASSERT_TRUE(acceptor_.wait_for_streams(1));
  ASSERT_TRUE(acceptor_.record(0).wait_for_loss());
  EXPECT_EQ(acceptor_.record(0).messages(), std::vector{good});
  EXPECT_EQ(acceptor_.record(0).loss()->code(), ErrorCode::kMalformed);
}

TEST_F(HostilePeerTest, TheEndInMidFrameIsALoss) {
  std::vector<Message> messages;
  const auto bytes = sample_frames(1, messages);
  {
    RawClient client(acceptor_.address());
    ASSERT_TRUE(client.send(std::span(bytes).first(bytes.size() - 1)));
  }
  ASSERT_TRUE(acceptor_.wait_for_streams(1));
  ASSERT_TRUE(acceptor_.record(0).wait_for_loss());
  EXPECT_EQ(acceptor_.record(0).loss()->code(), ErrorCode::kPeerLost);
  EXPECT_TRUE(acceptor_.record(0).messages().empty());
}

TEST_F(HostilePeerTest, GarbageBesidesDoesNotDisturbAStream) {
  StreamRecord record;
  ControlLoop loop{ControlLimits{}};
  const Connected good = connect_to(loop, acceptor_.address());
  ASSERT_TRUE(good.status.ok()) << good.status.text();
  run_on(loop, [&] { good.stream->start(record.handlers()); });
  ASSERT_TRUE(acceptor_.wait_for_streams(1));

  Random random(64);
  std::vector<std::unique_ptr<RawClient>> clients;
  constexpr std::size_t kClients = 64;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(acceptor_.address()));
    std::vector<std::byte> garbage(1 + random() % 5000);
    for (std::byte& byte : garbage) byte = static_cast<std::byte>(random());
    // Some announce a large frame and never send it.
    if (i % 4 == 0) {
      garbage = frame_of(AttachedMessage{.fabric_confirm = std::vector<std::byte>(100'000)});
      garbage.resize(200);
    }
    clients.back()->send(garbage);
    run_on(loop, [&] { good.stream->send(ReceivedMessage{.wire_id = i}); });
    run_on(acceptor_.loop(), [&] { acceptor_.stream(0)->send(ReceivedMessage{.wire_id = i}); });
  }
  ASSERT_TRUE(record.wait_for_messages(kClients));
  ASSERT_TRUE(acceptor_.record(0).wait_for_messages(kClients));
  ASSERT_TRUE(acceptor_.wait_for_streams(kClients + 1));
  for (std::size_t i = 0; i < kClients; ++i) {
    if (i % 4 == 0) continue;
    ASSERT_TRUE(acceptor_.record(i + 1).wait_for_loss()) << i;
    EXPECT_EQ(acceptor_.record(i + 1).loss()->code(), ErrorCode::kMalformed);
  }
  for (std::uint64_t i = 0; i < kClients; ++i) {
    EXPECT_EQ(record.messages()[i], Message(ReceivedMessage{.wire_id = i}));
  }
  EXPECT_FALSE(record.loss());
  EXPECT_FALSE(acceptor_.record(0).loss());
}

}  // namespace
}  // namespace kvrail

#include "wire/frame_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "wire/codec.h"
#include "wire/sample_messages.h"

namespace kvrail {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kLimit = 1u << 20;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> framed(const std::vector<std::byte>& message) {
  std::vector<std::byte> frame(kFrameHeaderBytes);
  put_frame_length(frame.data(), static_cast<std::uint32_t>(message.size()));
  frame.insert(frame.end(), message.begin(), message.end());
  return frame;
}

// Feeds `bytes` in pieces of at most `piece`; returns the messages.
std::vector<std::vector<std::byte>> feed(FrameReader& reader, std::span<const std::byte> bytes,
                                         std::size_t piece) {
  std::vector<std::vector<std::byte>> messages;
  while (!bytes.empty()) {
    const auto space = reader.prepare();
    EXPECT_FALSE(space.empty());
    const std::size_t size = std::min({piece, space.size(), bytes.size()});
    std::memcpy(space.data(), bytes.data(), size);
    reader.commit(size);
    bytes = bytes.subspan(size);
    while (const auto message = reader.next())
      messages.emplace_back(message->begin(), message->end());
  }
  return messages;
}

std::string fault(const std::vector<std::byte>& bytes, std::uint32_t limit = kLimit) {
  FrameReader reader(limit);
  try {
    feed(reader, bytes, bytes.size());
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kMalformed);
    return e.what();
  }
  return "none";
}

TEST(FrameReaderTest, SplitsAtAnyPiece) {
  Random random(1);
  std::vector<std::vector<std::byte>> messages;
  std::vector<std::byte> stream;
  for (int i = 0; i < 60; ++i) {
    messages.push_back(encode(sample_message(random() % kMessageKinds, random)));
    const auto frame = framed(messages.back());
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (const std::size_t piece : {1u, 2u, 3u, 5u, 7u, 64u, 1000u, 1u << 20}) {
    FrameReader reader(kLimit);
    EXPECT_EQ(feed(reader, stream, piece), messages) << piece;
  }
}

TEST(FrameReaderTest, LargeFramesAmongSmallOnes) {
  const auto small = encode(ReceivedMessage{.wire_id = 1});
  const auto large = encode(AttachedMessage{.fabric_confirm = std::vector<std::byte>(900'000)});
  std::vector<std::vector<std::byte>> messages;
  std::vector<std::byte> stream;
  for (const auto& message : {small, large, small, small, large, large, small}) {
    messages.push_back(message);
    const auto frame = framed(message);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (const std::size_t piece : {1000u, 65536u, 1u << 22}) {
    FrameReader reader(kLimit);
    EXPECT_EQ(feed(reader, stream, piece), messages) << piece;
  }
}

TEST(FrameReaderTest, LengthsAtTheLimit) {
  const auto message = encode(AttachedMessage{.fabric_confirm = std::vector<std::byte>(500)});
  const auto size = static_cast<std::uint32_t>(message.size());
  EXPECT_EQ(fault(framed(message), size), "none");
  EXPECT_THAT(fault(framed(message), size - 1),
              HasSubstr(std::to_string(size) + " bytes, where 12 to " + std::to_string(size - 1)));
}

TEST(FrameReaderTest, HostileLengths) {
  for (const std::uint32_t length : {0u, 1u, 11u, kLimit + 1, 0x7fffffffu, 0x80000000u, ~0u}) {
    std::vector<std::byte> bytes(kFrameHeaderBytes);
    put_frame_length(bytes.data(), length);
    EXPECT_THAT(fault(bytes), HasSubstr("a frame of " + std::to_string(length) + " bytes"));
  }
}

TEST(FrameReaderTest, AnnouncedBytesAreNotAllocated) {
  FrameReader reader(1u << 30);
  std::vector<std::byte> bytes(kFrameHeaderBytes);
  put_frame_length(bytes.data(), 1u << 30);
  EXPECT_TRUE(feed(reader, bytes, 4).empty());
  EXPECT_LT(reader.prepare().size(), 64u << 10);
}

TEST(FrameReaderTest, SaysWhatElseItLooksLike) {
  EXPECT_THAT(fault(bytes_of("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), HasSubstr("HTTP request"));
  EXPECT_THAT(fault(bytes_of("POST")), HasSubstr("HTTP request"));
  EXPECT_THAT(fault(bytes_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")), HasSubstr("HTTP request"));
  EXPECT_THAT(fault(bytes_of("HTTP/1.1 400 Bad Request\r\n")), HasSubstr("HTTP server"));
  EXPECT_THAT(fault(bytes_of("SSH-2.0-OpenSSH_9.2\r\n")), HasSubstr("SSH"));
  EXPECT_THAT(fault(bytes_of("something else")), testing::Not(HasSubstr("looks like")));
  // TLS records of a few hundred bytes, the second with a length that is allowed here.
  std::vector<std::byte> tls(300, std::byte{1});
  std::memcpy(tls.data(), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  EXPECT_THAT(fault(tls), HasSubstr("TLS"));
  std::memcpy(tls.data(), "\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03", 11);
  EXPECT_THAT(fault(tls), HasSubstr("TLS"));
}

TEST(FrameReaderTest, AFaultAfterGoodFrames) {
  auto stream = framed(encode(ReceivedMessage{.wire_id = 5}));
  const auto garbage = bytes_of("GET / HTTP/1.1\r\n");
  stream.insert(stream.end(), garbage.begin(), garbage.end());
  FrameReader reader(kLimit);
  const auto space = reader.prepare();
  std::memcpy(space.data(), stream.data(), stream.size());
  reader.commit(stream.size());
  ASSERT_TRUE(reader.next());
  EXPECT_THROW(reader.next(), Error);
}

}  // namespace
}  // namespace kvrail

#include "wire/frame_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "kvrail/error.h"
#include "wire/codec.h"

namespace kvrail {
namespace {

constexpr std::size_t kInitialBytes = 8u << 10;
// A larger buffer is given back when it is empty.
constexpr std::size_t kKeptBytes = 256u << 10;

std::uint32_t get_frame_length(const std::byte* header) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length |= std::to_integer<std::uint32_t>(header[i]) << (8 * i);
  }
  return length;
}

// What speaks like this, and how to say so to people who connected something else to the port.
struct Guess {
  FrameFault fault = FrameFault::kGarbage;
  std::string_view text;
};

Guess guess(std::string_view bytes) {
  constexpr std::array<std::string_view, 9> kHttp = {"GET ", "POST", "HEAD", "PUT ", "DELE",
                                                     "OPTI", "PATC", "CONN", "PRI "};
  for (const std::string_view method : kHttp) {
    if (bytes.starts_with(method)) return {FrameFault::kHttp, "; it looks like an HTTP request"};
  }
  if (bytes.starts_with("HTTP")) {
    return {FrameFault::kHttp, "; it looks like an HTTP server's answer"};
  }
  if (bytes.starts_with("\x16\x03")) return {FrameFault::kTls, "; it looks like a TLS handshake"};
  if (bytes.starts_with("SSH-")) return {FrameFault::kSsh, "; it looks like SSH"};
  return {};
}

bool has_identifier(const std::byte* message) {
  return std::memcmp(message + kIdentifierOffset, kMessageIdentifier.data(),
                     kMessageIdentifier.size()) == 0;
}

// A Goodbye of a node that does not blame the key.
bool is_farewell(std::span<const std::byte> clear) {
  if (clear.empty()) return false;
  try {
    const Message message = decode(clear);
    const auto* const goodbye = std::get_if<GoodbyeMessage>(&message);
    return goodbye != nullptr && goodbye->code != ErrorCode::kUnauthenticated;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void put_frame_length(std::byte* header, std::uint32_t length) {
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    header[i] = static_cast<std::byte>(length >> (8 * i));
  }
}

FrameReader::FrameReader(std::uint32_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}

std::span<std::byte> FrameReader::prepare() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (capacity_ > kKeptBytes) {
      buffer_.reset();
      capacity_ = 0;
    }
  } else if (begin_ > 0) {
    // Part of one frame: all before it are consumed.
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == capacity_) grow(std::max(kInitialBytes, 2 * capacity_));
  return {buffer_.get() + end_, capacity_ - end_};
}

void FrameReader::grow(std::size_t capacity) {
  auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity);
  if (end_ > 0) std::memcpy(larger.get(), buffer_.get(), end_);
  buffer_ = std::move(larger);
  capacity_ = capacity;
}

std::optional<std::span<const std::byte>> FrameReader::next() {
  const std::size_t available = end_ - begin_;
  if (available < kFrameHeaderBytes) return std::nullopt;
  std::byte* const frame = buffer_.get() + begin_;
  std::byte* const message = frame + kFrameHeaderBytes;
  const std::uint32_t length = get_frame_length(frame);
  const std::size_t tag_bytes = cipher_ ? FrameCipher::kTagBytes : 0;
  if (length < kMinMessageBytes + tag_bytes || length > max_message_bytes_ + tag_bytes) {
    fail(length);
  }

  // Most of what is no message of ours has a length that would be waited for in vain.
  if (!cipher_ && available >= kFrameHeaderBytes + kMinMessageBytes && !has_identifier(message)) {
    fail(length);
  }
  if (available - kFrameHeaderBytes < length) return std::nullopt;
  begin_ += kFrameHeaderBytes + length;
  if (cipher_) {
    // What does not open is spoilt by trying.
    std::vector<std::byte> clear;
    if (cipher_->count() == 0 && has_identifier(message)) clear.assign(message, message + length);
    if (!cipher_->open({frame, kFrameHeaderBytes + length})) fail_to_open(clear);
  }
  return std::span<const std::byte>(message, length - tag_bytes);
}

void FrameReader::fail(std::uint32_t length) const {
  const std::string_view bytes(reinterpret_cast<const char*>(buffer_.get() + begin_),
                               end_ - begin_);
  const std::size_t tag_bytes = cipher_ ? FrameCipher::kTagBytes : 0;
  Guess found = guess(bytes);
  if (length >= kMinMessageBytes + tag_bytes && length <= max_message_bytes_ + tag_bytes) {
    throw FrameError(ErrorCode::kMalformed, found.fault,
                     fmt::format("bytes that begin like no control message{}", found.text));
  }
  if (found.fault == FrameFault::kGarbage && length == 0) found.fault = FrameFault::kZeroLength;
  if (found.fault == FrameFault::kGarbage && length > max_message_bytes_) {
    found.fault = FrameFault::kHugeLength;
  }
  throw FrameError(
      ErrorCode::kMalformed, found.fault,
      fmt::format("a frame of {} bytes, where {} to {} are allowed{}", length,
                  kMinMessageBytes + tag_bytes, max_message_bytes_ + tag_bytes, found.text));
}

void FrameReader::fail_to_open(std::span<const std::byte> clear) const {
  if (is_farewell(clear)) {
    throw FrameError(ErrorCode::kPeerLost, FrameFault::kLeft,
                     "a Goodbye in clear: it left before it had this node's HelloAck");
  }
  // Whoever has the key begins well.
  const std::string_view text =
      cipher_->count() == 0
          ? "a first frame that is not sealed with the key of this stream: the two nodes have "
            "different pre-shared keys, or somebody is between them; give both the same key"
          : "a frame that is not the one that is due: it was changed, repeated or left out on the "
            "way";
  throw FrameError(ErrorCode::kUnauthenticated, FrameFault::kNotSealed, std::string(text));
}

}  // namespace kvrail

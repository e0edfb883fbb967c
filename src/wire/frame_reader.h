#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "wire/frame_cipher.h"
#include "wire/frame_fault.h"

namespace kvrail {

// Splits the bytes of a stream into frames, in one buffer that is used again: no allocation per
// frame. The buffer grows with what has arrived, never with what a length announces.
//
//   prepare(), read into it, commit(), next() until it is empty, prepare() ...
class FrameReader {
 public:
  explicit FrameReader(std::uint32_t max_message_bytes);

  // Where the next bytes go; never empty. Ends the life of what next() returned.
  std::span<std::byte> prepare();
  void commit(std::size_t size_bytes) { end_ += size_bytes; }

  // The message in the next frame that is there in full. Throws FrameError: kMalformed, with a
  // guess at what else it is, for a length out of range or bytes that do not begin like a message;
  // kUnauthenticated for a frame that does not open. The stream is of no use after that.
  std::optional<std::span<const std::byte>> next();

  // Both hold from the next frame on, though it be in the buffer already.
  void decrypt(const Secret& key) { cipher_.emplace(key); }
  void set_max_message_bytes(std::uint32_t max_message_bytes) {
    max_message_bytes_ = max_message_bytes;
  }

 private:
  void grow(std::size_t capacity);
  [[noreturn]] void fail(std::uint32_t length) const;
  // `clear`: the frame as it came, if it may be one that was never sealed.
  [[noreturn]] void fail_to_open(std::span<const std::byte> clear) const;

  std::uint32_t max_message_bytes_;
  std::optional<FrameCipher> cipher_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  // bytes [begin_, end_) have arrived and are not consumed
  std::size_t end_ = 0;
};

// The length before each message: 32 bits, little endian.
inline constexpr std::size_t kFrameHeaderBytes = 4;
void put_frame_length(std::byte* header, std::uint32_t length);

}  // namespace kvrail

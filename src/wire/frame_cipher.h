#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/secret.h"

namespace kvrail {

// One direction of an encrypted control stream: ChaCha20-Poly1305 (IETF) with a key that is used
// for this direction of this stream only, and the number of the frame, from 0, as its nonce. The
// length in front is not encrypted, but part of what the tag is over. So a frame opens only if it
// is exactly the one that was sealed with that number: changed, repeated, left out or out of order,
// it does not.
//
//   length (4) | the encrypted message | tag (16)       length counts message and tag
//
// Both calls work in place and allocate nothing. Threads: one.
class FrameCipher {
 public:
  static constexpr std::size_t kTagBytes = 16;

  explicit FrameCipher(const Secret& key) : key_(key) {}

  // A frame with a plain message, and room for the tag at its end; writes the length, too.
  void seal(std::span<std::byte> frame);
  // A whole frame as it arrived. False if it is not the one that is due; the message is zeros then,
  // and the stream of no use any more.
  [[nodiscard]] bool open(std::span<std::byte> frame);

  // Frames so far.
  std::uint64_t count() const { return count_; }

 private:
  Secret key_;
  std::uint64_t count_ = 0;
};

}  // namespace kvrail

#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvrail/pre_shared_key.h"
#include "wire/frame_cipher.h"
#include "wire/frame_reader.h"
#include "wire/secret.h"

namespace kvrail {

// Keys and frames for tests; the same number is the same key.
inline Secret secret_of(unsigned char number) {
  Secret secret;
  std::memset(secret.data(), number, Secret::kBytes);
  return secret;
}

inline PreSharedKey key_of(unsigned char number) {
  return PreSharedKey::from_bytes(std::vector<std::byte>(PreSharedKey::kBytes, std::byte{number}));
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A frame of its own around an encoded message.
inline std::vector<std::byte> seal(FrameCipher& cipher, const std::vector<std::byte>& message) {
  std::vector<std::byte> frame(kFrameHeaderBytes);
  frame.insert(frame.end(), message.begin(), message.end());
  frame.resize(frame.size() + FrameCipher::kTagBytes);
  cipher.seal(frame);
  return frame;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}
inline std::string to_hex(const Secret& secret) {
  return to_hex(std::as_bytes(std::span(secret.data(), Secret::kBytes)));
}

}  // namespace kvrail

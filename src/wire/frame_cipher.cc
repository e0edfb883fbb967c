#include "wire/frame_cipher.h"

#include <array>
#include <cassert>

#include "wire/frame_reader.h"

namespace kvrail {
namespace {

static_assert(FrameCipher::kTagBytes == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(Secret::kBytes == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

using Nonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

Nonce nonce_of(std::uint64_t number) {
  Nonce nonce{};
  for (std::size_t i = 0; i < sizeof number; ++i) {
    nonce[i] = static_cast<unsigned char>(number >> (8 * i));
  }
  return nonce;
}

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

void FrameCipher::seal(std::span<std::byte> frame) {
  assert(frame.size() >= kFrameHeaderBytes + kTagBytes);
  const std::size_t message_bytes = frame.size() - kFrameHeaderBytes - kTagBytes;
  put_frame_length(frame.data(), static_cast<std::uint32_t>(message_bytes + kTagBytes));
  unsigned char* const header = raw(frame.data());
  unsigned char* const message = header + kFrameHeaderBytes;
  crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      message, message + message_bytes, nullptr, message, message_bytes, header, kFrameHeaderBytes,
      nullptr, nonce_of(count_).data(), key_.data());
  ++count_;
}

bool FrameCipher::open(std::span<std::byte> frame) {
  if (frame.size() < kFrameHeaderBytes + kTagBytes) return false;
  const std::size_t message_bytes = frame.size() - kFrameHeaderBytes - kTagBytes;
  unsigned char* const header = raw(frame.data());
  unsigned char* const message = header + kFrameHeaderBytes;
  if (crypto_aead_chacha20poly1305_ietf_decrypt_detached(
          message, nullptr, message, message_bytes, message + message_bytes, header,
          kFrameHeaderBytes, nonce_of(count_).data(), key_.data()) != 0) {
    return false;
  }
  ++count_;
  return true;
}

}  // namespace kvrail

#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>

namespace kvrail {

// 32 bytes that nobody else may see: a key, or what one is made of. Wiped when destroyed.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  Secret() = default;
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret() { sodium_memzero(bytes_.data(), bytes_.size()); }

  // As libsodium takes them.
  unsigned char* data() { return bytes_.data(); }
  const unsigned char* data() const { return bytes_.data(); }

 private:
  std::array<unsigned char, kBytes> bytes_{};
};

// The keys of one end of a control stream.
struct StreamKeys {
  Secret send;
  Secret receive;
};

}  // namespace kvrail

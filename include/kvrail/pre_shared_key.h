#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace kvrail {

// The secret that the nodes of one deployment share: whoever has it may attach, and nobody else. It
// must be random ("openssl rand -hex 32"), since a phrase that people choose can be guessed.
//
// Threads: plain data. Ownership: each copy holds the bytes and wipes them when it is destroyed.
// There is no way to print one.
class PreSharedKey {
 public:
  static constexpr std::size_t kBytes = 32;

  // Reads a text file of 64 hexadecimal digits, which white space may follow. Throws Error:
  // kNotFound if it cannot be read, kInvalidArgument if it holds anything else, is no regular file,
  // or is one that group or others may read or write.
  static PreSharedKey from_file(const std::string& path);
  // Copies kBytes bytes; the caller wipes its own. Throws Error (kInvalidArgument) for another
  // size, and for zeros only.
  static PreSharedKey from_bytes(std::span<const std::byte> bytes);

  PreSharedKey(const PreSharedKey&) = default;
  PreSharedKey& operator=(const PreSharedKey&) = default;
  ~PreSharedKey();

  std::span<const std::byte, kBytes> bytes() const { return bytes_; }

 private:
  PreSharedKey() = default;

  std::array<std::byte, kBytes> bytes_{};
};

}  // namespace kvrail

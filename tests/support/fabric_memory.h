#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace kvrail {

// Memory to register: an anonymous file with a guard page on either side of the usable bytes. It
// can be mapped by another process too, so that a test sees what its child was sent, even after the
// child's end.
class TestMemory {
 public:
  static std::shared_ptr<TestMemory> create(std::uint64_t size_bytes);
  // The same memory, made elsewhere.
  static std::shared_ptr<TestMemory> map(UniqueFd fd, std::uint64_t size_bytes);
  ~TestMemory();
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;

  std::span<std::byte> bytes() const;
  std::byte* data() const { return bytes().data(); }
  std::uint64_t size_bytes() const { return size_bytes_; }
  int fd() const { return fd_.get(); }

  void set(std::byte value);
  // Bytes that depend on the seed and on their place.
  void fill(std::uint64_t seed);
  testing::AssertionResult guards_intact() const;

 private:
  TestMemory(UniqueFd fd, std::uint64_t size_bytes);

  UniqueFd fd_;
  std::uint64_t size_bytes_;
  std::uint64_t mapped_bytes_;
  std::byte* mapping_ = nullptr;
};

// What fill(seed) writes to `bytes`, which start `offset` (a multiple of 8) into the memory.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed, std::uint64_t offset = 0);

// The place of the first difference in the text of a failure.
testing::AssertionResult same_bytes(std::span<const std::byte> expected,
                                    std::span<const std::byte> actual);

}  // namespace kvrail

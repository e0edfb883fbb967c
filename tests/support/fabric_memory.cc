#include "support/fabric_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace kvrail {
namespace {

constexpr std::uint64_t kGuardBytes = 4096;
constexpr std::byte kGuard{0xC7};

std::uint64_t round_up(std::uint64_t size) {
  return (size + kGuardBytes - 1) / kGuardBytes * kGuardBytes;
}

std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

}  // namespace

std::shared_ptr<TestMemory> TestMemory::create(std::uint64_t size_bytes) {
  UniqueFd fd(::memfd_create("kvrail-test", MFD_CLOEXEC));
  const auto file_bytes = static_cast<off_t>(round_up(size_bytes) + 2 * kGuardBytes);
  if (!fd || ::ftruncate(fd.get(), file_bytes) != 0) {
    throw std::system_error(errno, std::generic_category(), "memfd");
  }
  std::shared_ptr<TestMemory> memory(new TestMemory(std::move(fd), size_bytes));
  std::memset(memory->mapping_, std::to_integer<int>(kGuard), memory->mapped_bytes_);
  memory->set(std::byte{0});
  return memory;
}

std::shared_ptr<TestMemory> TestMemory::map(UniqueFd fd, std::uint64_t size_bytes) {
  return std::shared_ptr<TestMemory>(new TestMemory(std::move(fd), size_bytes));
}

TestMemory::TestMemory(UniqueFd fd, std::uint64_t size_bytes)
    : fd_(std::move(fd)),
      size_bytes_(size_bytes),
      mapped_bytes_(round_up(size_bytes) + 2 * kGuardBytes) {
  void* mapping = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (mapping == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  mapping_ = static_cast<std::byte*>(mapping);
}

TestMemory::~TestMemory() { ::munmap(mapping_, mapped_bytes_); }

std::span<std::byte> TestMemory::bytes() const { return {mapping_ + kGuardBytes, size_bytes_}; }

void TestMemory::set(std::byte value) {
  std::memset(data(), std::to_integer<int>(value), size_bytes_);
}

void TestMemory::fill(std::uint64_t seed) { fill_pattern(bytes(), seed); }

testing::AssertionResult TestMemory::guards_intact() const {
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  if (!std::all_of(mapping_, mapping_ + kGuardBytes, is_guard)) {
    return testing::AssertionFailure() << "bytes before the region were written";
  }
  if (!std::all_of(data() + size_bytes_, mapping_ + mapped_bytes_, is_guard)) {
    return testing::AssertionFailure() << "bytes behind the region were written";
  }
  return testing::AssertionSuccess();
}

void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed, std::uint64_t offset) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = mix(seed * 0x100000001B3U ^ (offset + at));
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

testing::AssertionResult same_bytes(std::span<const std::byte> expected,
                                    std::span<const std::byte> actual) {
  if (expected.size() != actual.size()) {
    return testing::AssertionFailure()
           << "sizes " << expected.size() << " and " << actual.size() << " differ";
  }
  if (expected.empty() || std::memcmp(expected.data(), actual.data(), expected.size()) == 0) {
    return testing::AssertionSuccess();
  }
  const auto [left, right] = std::mismatch(expected.begin(), expected.end(), actual.begin());
  return testing::AssertionFailure()
         << "first difference at byte " << left - expected.begin() << " of " << expected.size()
         << ": expected " << std::to_integer<int>(*left) << ", found "
         << std::to_integer<int>(*right);
}

}  // namespace kvrail

#include "perf/pattern_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kvrail/error.h"

namespace kvrail::perf {
namespace {

constexpr std::uint64_t kWordBytes = 8;

// A word that is never zero, so that a page that did not arrive is seen (the finalizer of
// splitmix64 is a bijection that maps only 0 to 0).
std::uint64_t pattern_word(std::uint64_t index) {
  std::uint64_t word = (index + 1) * 0x9E3779B97F4A7C15ULL;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
  return word ^ (word >> 31);
}

}  // namespace

PatternMemory::PatternMemory(std::uint64_t size_bytes) : size_bytes_(size_bytes) {
  void* data = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorCode::kLimit,
                fmt::format("{} bytes of memory are not to be had: lower --pages or --max-memory",
                            size_bytes));
  }
  data_ = static_cast<std::byte*>(data);
}

PatternMemory::~PatternMemory() { ::munmap(data_, size_bytes_); }

void PatternMemory::fill() {
  for (std::uint64_t at = 0; at + kWordBytes <= size_bytes_; at += kWordBytes) {
    const std::uint64_t word = pattern_word(at / kWordBytes);
    std::memcpy(data_ + at, &word, kWordBytes);
  }
}

void PatternMemory::clear() { std::memset(data_, 0, size_bytes_); }

std::string PatternMemory::check_target(const PagePlan& plan) const {
  std::vector<bool> used(plan.area_bytes / plan.page_bytes);
  for (std::size_t page = 0; page < plan.pages(); ++page) {
    std::string fault =
        check_range(plan.target_offsets[page], plan.source_offsets[page], plan.page_bytes);
    if (!fault.empty()) return fmt::format("page {}: {}", page, fault);
    used[plan.target_offsets[page] / plan.page_bytes] = true;
  }
  for (std::size_t slot = 0; slot < used.size(); ++slot) {
    const std::byte* first = data_ + slot * plan.page_bytes;
    if (!used[slot] && std::any_of(first, first + plan.page_bytes,
                                   [](std::byte byte) { return byte != std::byte{0}; })) {
      return fmt::format("the gap at {} was written", slot * plan.page_bytes);
    }
  }
  return {};
}

std::string PatternMemory::check_range(std::uint64_t offset, std::uint64_t source_offset,
                                       std::uint64_t size_bytes) const {
  for (std::uint64_t at = 0; at < size_bytes; at += kWordBytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, data_ + offset + at, kWordBytes);
    if (word != pattern_word((source_offset + at) / kWordBytes)) {
      return fmt::format("wrong bytes at {}, from the source's {}", offset + at,
                         source_offset + at);
    }
  }
  return {};
}

}  // namespace kvrail::perf

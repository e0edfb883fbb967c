#include "perf/pattern_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>
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
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (std::size_t page = 0; page < plan.pages.size(); ++page) {
    const auto& [source, target, size_bytes] = plan.pages[page];
    const std::string fault = check_range(target, source, size_bytes);
    if (!fault.empty()) return fmt::format("page {}: {}", page, fault);
    ranges.emplace_back(target, target + size_bytes);
  }
  ranges.emplace_back(plan.area_bytes, plan.area_bytes);
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t end = 0;
  for (const auto& [first, next_end] : ranges) {
    const auto is_set = [](std::byte byte) { return byte != std::byte{0}; };
    if (first > end && std::any_of(data_ + end, data_ + first, is_set)) {
      return fmt::format("the gap at {} was written", end);
    }
    end = std::max(end, next_end);
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

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "perf/page_plan.h"

namespace kvrail::perf {

// The memory of one side, and what has to be in it. Threads: one at a time.
class PatternMemory {
 public:
  // Throws Error (kLimit).
  explicit PatternMemory(std::uint64_t size_bytes);
  ~PatternMemory();
  PatternMemory(const PatternMemory&) = delete;
  PatternMemory& operator=(const PatternMemory&) = delete;

  std::byte* data() const { return data_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  // The source's bytes: each word tells its place.
  void fill();
  void clear();
  // What is wrong with the target's pages and the gaps between them; empty if nothing is.
  std::string check_target(const PagePlan& plan) const;
  // The same for `size_bytes` at `offset`, which shall hold the source's bytes from
  // `source_offset`.
  std::string check_range(std::uint64_t offset, std::uint64_t source_offset,
                          std::uint64_t size_bytes) const;

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace kvrail::perf

#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kvrail/write_list.h"
#include "support/fabric_memory.h"

namespace kvrail {

// How the ranges of a random list lie to each other, those of one run too. Targets never overlap.
enum class RunShape {
  kMixed,      // each run as chance says, shuffled
  kAdjacent,   // neighbours in the source and in the target: can be merged
  kGathered,   // sources apart, targets neighbours
  kScattered,  // sources neighbours, targets apart
  kApart,      // nothing to merge
};

struct RunLimits {
  std::uint64_t min_bytes = 1;
  std::uint64_t max_bytes = 64 * 1024;
  std::uint32_t max_units = 1;  // more where the range's size asks for them
  std::size_t max_ranges = 1'000'000;
};

// The fewest units that a range of this size may carry.
constexpr std::uint32_t least_units(std::uint64_t size_bytes) {
  return static_cast<std::uint32_t>((size_bytes + kMaxUnitBytes - 1) / kMaxUnitBytes);
}

// Runs that fill the target as far as the limits and chance let them, some of several ranges.
std::vector<WriteRun> random_runs(std::mt19937_64& random, std::uint64_t source_bytes,
                                  std::uint64_t target_bytes, RunShape shape, RunLimits limits);

// `count` runs of one size and unit, `stride_bytes` apart in the target; sources follow each other
// in a source of `source_bytes`, again and again.
std::vector<WriteRun> strided_runs(std::size_t count, std::uint64_t size_bytes,
                                   std::uint64_t stride_bytes, std::uint64_t source_bytes);

std::uint64_t units_of(std::span<const WriteRun> runs);
std::uint64_t bytes_of(std::span<const WriteRun> runs);
std::uint64_t ranges_of(std::span<const WriteRun> runs);

// What a target must look like: the bytes it had, with the runs copied over them.
class ExpectedImage {
 public:
  explicit ExpectedImage(const TestMemory& target)
      : bytes_(target.bytes().begin(), target.bytes().end()) {}

  void apply(std::span<const WriteRun> runs, const TestMemory& source);
  testing::AssertionResult matches(const TestMemory& target) const;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace kvrail

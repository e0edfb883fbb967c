#include "support/fabric_write_lists.h"

#include <algorithm>

namespace kvrail {
namespace {

std::uint64_t between(std::mt19937_64& random, std::uint64_t low, std::uint64_t high) {
  return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
}

// Small sizes as often as large ones.
std::uint64_t random_size(std::mt19937_64& random, const RunLimits& limits) {
  const std::uint64_t range = limits.max_bytes - limits.min_bytes;
  const std::uint64_t magnitude = between(random, 0, 24);
  return limits.min_bytes + between(random, 0, std::min(range, std::uint64_t{1} << magnitude));
}

}  // namespace

std::vector<WriteRun> random_runs(std::mt19937_64& random, std::uint64_t source_bytes,
                                  std::uint64_t target_bytes, RunShape shape, RunLimits limits) {
  limits.max_bytes = std::min(limits.max_bytes, source_bytes);
  std::vector<WriteRun> runs;
  std::uint64_t source = 0;
  std::uint64_t target = between(random, 0, 64);
  while (runs.size() < limits.max_runs) {
    const std::uint64_t size = random_size(random, limits);
    const bool chance = between(random, 0, 2) == 0;
    const bool source_jumps = shape == RunShape::kGathered || shape == RunShape::kApart ||
                              (shape == RunShape::kMixed && chance);
    const bool target_jumps = shape == RunShape::kScattered || shape == RunShape::kApart ||
                              (shape == RunShape::kMixed && between(random, 0, 2) == 0);
    if (source_jumps) source = between(random, 0, source_bytes - size);
    if (source + size > source_bytes) source = 0;
    if (target_jumps) target += between(random, 1, 256);
    if (target + size > target_bytes) break;
    const std::uint32_t least = least_units(size);
    const auto units = static_cast<std::uint32_t>(
        between(random, least,
                std::max<std::uint64_t>(least, std::min<std::uint64_t>(limits.max_units, size))));
    runs.push_back({source, target, size, units});
    source += size;
    target += size;
  }
  if (shape == RunShape::kMixed) std::shuffle(runs.begin(), runs.end(), random);
  return runs;
}

std::vector<WriteRun> strided_runs(std::size_t count, std::uint64_t size_bytes,
                                   std::uint64_t stride_bytes, std::uint64_t source_bytes) {
  std::vector<WriteRun> runs;
  runs.reserve(count);
  const std::uint64_t places = source_bytes / size_bytes;
  for (std::size_t i = 0; i < count; ++i) {
    runs.push_back(
        {i % places * size_bytes, i * stride_bytes, size_bytes, least_units(size_bytes)});
  }
  return runs;
}

std::uint64_t units_of(std::span<const WriteRun> runs) {
  std::uint64_t units = 0;
  for (const WriteRun& run : runs) units += run.units;
  return units;
}

std::uint64_t bytes_of(std::span<const WriteRun> runs) {
  std::uint64_t bytes = 0;
  for (const WriteRun& run : runs) bytes += run.size_bytes;
  return bytes;
}

void ExpectedImage::apply(std::span<const WriteRun> runs, const TestMemory& source) {
  for (const WriteRun& run : runs) {
    std::copy_n(source.bytes().begin() + static_cast<std::ptrdiff_t>(run.source_offset),
                run.size_bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(run.target_offset));
  }
}

testing::AssertionResult ExpectedImage::matches(const TestMemory& target) const {
  if (auto guards = target.guards_intact(); !guards) return guards;
  return same_bytes(bytes_, target.bytes());
}

}  // namespace kvrail

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

// How many ranges fit into `room` bytes.
std::uint64_t ranges_in(std::uint64_t room, std::uint64_t size, std::uint64_t stride) {
  return stride == 0 ? ~std::uint64_t{0} : (room - size) / stride + 1;
}

// Makes more ranges of the run, as far as both rooms let it.
void repeat(std::mt19937_64& random, WriteRun& run, bool source_jumps, bool target_jumps,
            std::uint64_t source_room, std::uint64_t target_room, std::uint64_t most) {
  run.source_stride_bytes = run.target_stride_bytes = run.size_bytes;
  // The same bytes again, overlapping ones, or ones further on.
  if (source_jumps) run.source_stride_bytes = between(random, 0, 2) * between(random, 1, 512);
  if (target_jumps) run.target_stride_bytes += between(random, 1, 256);
  run.count = static_cast<std::uint32_t>(
      std::min({between(random, 1, 40), most,
                ranges_in(source_room, run.size_bytes, run.source_stride_bytes),
                ranges_in(target_room, run.size_bytes, run.target_stride_bytes)}));
}

}  // namespace

std::vector<WriteRun> random_runs(std::mt19937_64& random, std::uint64_t source_bytes,
                                  std::uint64_t target_bytes, RunShape shape, RunLimits limits) {
  limits.max_bytes = std::min(limits.max_bytes, source_bytes);
  std::vector<WriteRun> runs;
  std::uint64_t source = 0;
  std::uint64_t target = between(random, 0, 64);
  std::uint64_t ranges = 0;
  while (ranges < limits.max_ranges) {
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
    WriteRun run = {source, target, size, units};
    if (between(random, 0, 3) == 0) {
      repeat(random, run, source_jumps, target_jumps, source_bytes - source, target_bytes - target,
             limits.max_ranges - ranges);
    }
    runs.push_back(run);
    ranges += run.count;
    source += (run.count - 1) * run.source_stride_bytes + size;
    target += (run.count - 1) * run.target_stride_bytes + size;
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
  for (const WriteRun& run : runs) units += std::uint64_t{run.count} * run.units;
  return units;
}

std::uint64_t bytes_of(std::span<const WriteRun> runs) {
  std::uint64_t bytes = 0;
  for (const WriteRun& run : runs) bytes += run.count * run.size_bytes;
  return bytes;
}

std::uint64_t ranges_of(std::span<const WriteRun> runs) {
  std::uint64_t ranges = 0;
  for (const WriteRun& run : runs) ranges += run.count;
  return ranges;
}

void ExpectedImage::apply(std::span<const WriteRun> runs, const TestMemory& source) {
  for (const WriteRun& run : runs) {
    for (std::uint64_t i = 0; i < run.count; ++i) {
      const auto from =
          source.bytes().subspan(run.source_offset + i * run.source_stride_bytes, run.size_bytes);
      const std::uint64_t to = run.target_offset + i * run.target_stride_bytes;
      std::copy(from.begin(), from.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
}

testing::AssertionResult ExpectedImage::matches(const TestMemory& target) const {
  if (auto guards = target.guards_intact(); !guards) return guards;
  return same_bytes(bytes_, target.bytes());
}

}  // namespace kvrail

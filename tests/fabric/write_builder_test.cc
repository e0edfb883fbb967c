#include "fabric/write_builder.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fabric/immediate.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

std::vector<BuiltWrite> build_all(const std::vector<WriteRun>& runs, const WriteLimits& limits) {
  std::vector<BuiltWrite> writes;
  RunCursor cursor;
  BuiltWrite write;
  while (build_next_write(runs, limits, cursor, write)) writes.push_back(write);
  return writes;
}

WriteLimits limits_of(std::uint32_t sources, std::uint32_t targets,
                      std::uint64_t merge_bytes = kMiB) {
  WriteLimits limits;
  limits.max_sources = sources;
  limits.max_targets = targets;
  limits.merge_bytes = merge_bytes;
  return limits;
}

TEST(WriteBuilder, MergesNeighboursIntoOneSegment) {
  const auto writes = build_all({{0, 100, 50, 1}, {50, 150, 50, 2}}, limits_of(1, 1));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].source_count, 1u);
  EXPECT_EQ(writes[0].target_count, 1u);
  EXPECT_EQ(writes[0].targets[0].offset, 100u);
  EXPECT_EQ(writes[0].targets[0].size_bytes, 100u);
  EXPECT_EQ(writes[0].units, 3u);
  EXPECT_EQ(writes[0].ranges, 2u);
}

TEST(WriteBuilder, KeepsRunsApartThatTouchOnOneSideOnly) {
  EXPECT_EQ(build_all({{0, 100, 50, 1}, {50, 200, 50, 1}}, limits_of(1, 1)).size(), 2u);
  EXPECT_EQ(build_all({{0, 100, 50, 1}, {70, 150, 50, 1}}, limits_of(1, 1)).size(), 2u);
}

TEST(WriteBuilder, GathersSourcesAndFillsTargetsWithinTheLimits) {
  const std::vector<WriteRun> gather = {{0, 0, 10, 1}, {20, 10, 10, 1}, {40, 20, 10, 1}};
  EXPECT_EQ(build_all(gather, limits_of(4, 1)).size(), 1u);
  EXPECT_EQ(build_all(gather, limits_of(2, 1)).size(), 2u);
  const std::vector<WriteRun> scatter = {{0, 0, 10, 1}, {10, 20, 10, 1}, {20, 40, 10, 1}};
  EXPECT_EQ(build_all(scatter, limits_of(1, 4)).size(), 1u);
  EXPECT_EQ(build_all(scatter, limits_of(1, 2)).size(), 2u);
}

TEST(WriteBuilder, LeavesRangesAloneThatAreSentInlineAndApart) {
  WriteLimits limits = limits_of(4, 4);
  limits.inline_bytes = 4096;
  const auto sizes = [&](std::uint64_t size, std::uint64_t stride) {
    std::vector<std::uint64_t> sizes;
    for (const BuiltWrite& write : build_all({{0, 0, size, 1, 4, stride, stride}}, limits)) {
      sizes.push_back(write.size_bytes);
    }
    return sizes;
  };
  using Sizes = std::vector<std::uint64_t>;
  EXPECT_EQ(sizes(4096, 8192), (Sizes{4096, 4096, 4096, 4096}));
  EXPECT_EQ(sizes(4096, 4096), (Sizes{16384}));
  EXPECT_EQ(sizes(4097, 8192), (Sizes{4 * 4097}));
  EXPECT_EQ(sizes(2048, 8192), (Sizes{4096, 4096}));
  EXPECT_EQ(sizes(1000, 8192), (Sizes{4000}));
}

TEST(WriteBuilder, SplitsARunOfMoreUnitsThanAnImmediateHolds) {
  const auto writes = build_all({{0, 0, 9000, 9000}}, limits_of(4, 4));
  ASSERT_EQ(writes.size(), 3u);
  for (const BuiltWrite& write : writes) {
    EXPECT_GE(write.units, 1u);
    EXPECT_LE(write.units, kMaxUnitsPerWrite);
    EXPECT_GE(write.size_bytes, 1u);
  }
}

TEST(WriteBuilder, LeavesAUnitWholeThatIsLongerThanTheMergeSize) {
  const auto writes = build_all({{0, 0, kMiB, 1}}, limits_of(4, 4, 64 * kKiB));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].size_bytes, kMiB);
}

TEST(WriteBuilder, WritesNothingForNoRuns) { EXPECT_TRUE(build_all({}, limits_of(4, 4)).empty()); }

// Replays the writes byte by byte: sources in order fill targets in order.
void expect_same_copies(const std::vector<WriteRun>& runs, const std::vector<BuiltWrite>& writes,
                        const WriteLimits& limits) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> wanted;
  std::uint64_t units = 0;
  for (const WriteRun& run : runs) {
    units += run.units;
    for (std::uint64_t i = 0; i < run.size_bytes; ++i) {
      wanted.emplace_back(run.source_offset + i, run.target_offset + i);
    }
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> got;
  std::uint64_t got_units = 0;
  std::uint64_t got_ranges = 0;
  for (const BuiltWrite& write : writes) {
    std::vector<std::uint64_t> sources;
    std::vector<std::uint64_t> targets;
    for (std::uint32_t s = 0; s < write.source_count; ++s) {
      for (std::uint64_t i = 0; i < write.sources[s].size_bytes; ++i) {
        sources.push_back(write.sources[s].offset + i);
      }
    }
    for (std::uint32_t t = 0; t < write.target_count; ++t) {
      for (std::uint64_t i = 0; i < write.targets[t].size_bytes; ++i) {
        targets.push_back(write.targets[t].offset + i);
      }
    }
    ASSERT_EQ(sources.size(), targets.size());
    ASSERT_EQ(sources.size(), write.size_bytes);
    ASSERT_GE(write.units, 1u);
    ASSERT_LE(write.units, kMaxUnitsPerWrite);
    ASSERT_LE(write.source_count, limits.max_sources);
    ASSERT_LE(write.target_count, limits.max_targets);
    for (std::size_t i = 0; i < sources.size(); ++i) got.emplace_back(sources[i], targets[i]);
    got_units += write.units;
    got_ranges += write.ranges;
  }
  ASSERT_EQ(got, wanted);
  ASSERT_EQ(got_units, units);
  ASSERT_EQ(got_ranges, runs.size());
}

TEST(WriteBuilder, CopiesEveryByteOnceWhateverTheRuns) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<WriteRun> runs;
    std::uint64_t source = 0;
    std::uint64_t target = 0;
    const unsigned count = 1 + random() % 20;
    for (unsigned i = 0; i < count; ++i) {
      if (random() % 2 != 0) source += random() % 5;
      if (random() % 2 != 0) target += random() % 5;
      const std::uint64_t size = 1 + random() % 300;
      const auto units = static_cast<std::uint32_t>(1 + random() % size);
      runs.push_back({source, target, size, units});
      source += size;
      target += size;
    }
    WriteLimits limits = limits_of(1 + random() % 4, 1 + random() % 4, 1 + random() % 500);
    limits.inline_bytes = random() % 2 * (random() % 600);
    ASSERT_NO_FATAL_FAILURE(expect_same_copies(runs, build_all(runs, limits), limits)) << round;
  }
}

std::vector<WriteRun> written_out(const std::vector<WriteRun>& runs) {
  std::vector<WriteRun> ranges;
  for (const WriteRun& run : runs) {
    WriteRun range = {run.source_offset, run.target_offset, run.size_bytes, run.units};
    for (std::uint32_t i = 0; i < run.count; ++i) {
      ranges.push_back(range);
      range.source_offset += run.source_stride_bytes;
      range.target_offset += run.target_stride_bytes;
    }
  }
  return ranges;
}

using Segments = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Segments segments_of(const std::array<Segment, kMaxSegments>& segments, std::uint32_t count) {
  Segments all;
  for (std::uint32_t i = 0; i < count; ++i) {
    all.emplace_back(segments[i].offset, segments[i].size_bytes);
  }
  return all;
}

void expect_same_writes(const std::vector<BuiltWrite>& got, const std::vector<BuiltWrite>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(segments_of(got[i].sources, got[i].source_count),
              segments_of(wanted[i].sources, wanted[i].source_count));
    ASSERT_EQ(segments_of(got[i].targets, got[i].target_count),
              segments_of(wanted[i].targets, wanted[i].target_count));
    ASSERT_EQ(got[i].size_bytes, wanted[i].size_bytes);
    ASSERT_EQ(got[i].units, wanted[i].units);
    ASSERT_EQ(got[i].ranges, wanted[i].ranges);
  }
}

TEST(WriteBuilder, RepeatsAreTheSameAsAListWrittenOut) {
  std::mt19937 random(8);
  for (int round = 0; round < 3000; ++round) {
    std::vector<WriteRun> runs;
    std::uint64_t source = 0;
    std::uint64_t target = 0;
    const unsigned length = 1 + random() % 8;
    for (unsigned i = 0; i < length; ++i) {
      if (random() % 2 != 0) source += random() % 5;
      if (random() % 2 != 0) target += random() % 5;
      WriteRun run = {source, target, 1 + random() % 300};
      run.units = static_cast<std::uint32_t>(1 + random() % run.size_bytes);
      // Few units merge far; some ranges have more than an immediate holds.
      if (random() % 2 != 0) run.units = 1;
      if (random() % 16 == 0) {
        run.size_bytes = 6000;
        run.units = 5000;
      }
      run.count = 1 + random() % 2 * (random() % 12);
      const std::uint64_t strides[] = {run.size_bytes, 0, random() % 1000};
      run.source_stride_bytes = strides[random() % 3];
      run.target_stride_bytes = run.size_bytes + random() % 2 * (random() % 50);
      source = run.source_offset + (run.count - 1) * run.source_stride_bytes + run.size_bytes;
      target = run.target_offset + (run.count - 1) * run.target_stride_bytes + run.size_bytes;
      // What is ignored may be anything.
      if (run.count == 1) run.source_stride_bytes = run.target_stride_bytes = ~std::uint64_t{0} - i;
      runs.push_back(run);
    }
    ASSERT_TRUE(check_runs(runs, 1 << 20, 1 << 20).ok());
    WriteLimits limits = limits_of(1 + random() % 4, 1 + random() % 4, 1 + random() % 5000);
    limits.inline_bytes = random() % 2 * (random() % 600);
    const auto writes = build_all(runs, limits);
    const auto ranges = written_out(runs);
    ASSERT_NO_FATAL_FAILURE(expect_same_writes(writes, build_all(ranges, limits))) << round;
    ASSERT_NO_FATAL_FAILURE(expect_same_copies(ranges, writes, limits)) << round;
  }
}

TEST(WriteBuilder, GathersAcrossRangesAndRuns) {
  // Two heads of three tokens of ten bytes: tokens first in the source, heads first in the target.
  const std::vector<WriteRun> runs = {{0, 0, 10, 1, 3, 20, 10}, {10, 30, 10, 1, 3, 20, 10}};
  const auto writes = build_all(runs, limits_of(4, 1));
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(segments_of(writes[0].sources, writes[0].source_count),
            (Segments{{0, 10}, {20, 10}, {40, 10}, {10, 10}}));
  EXPECT_EQ(segments_of(writes[0].targets, writes[0].target_count), (Segments{{0, 40}}));
  EXPECT_EQ(writes[0].ranges, 4u);
  EXPECT_EQ(segments_of(writes[1].sources, writes[1].source_count), (Segments{{30, 10}, {50, 10}}));
  EXPECT_EQ(segments_of(writes[1].targets, writes[1].target_count), (Segments{{40, 20}}));
  EXPECT_EQ(writes[1].ranges, 2u);
}

TEST(WriteBuilder, NoPieceOfALongRunIsLongerThanEveryProviderTakes) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t size = 1 + random() % (64 * kMiB);
    const std::uint64_t least = (size + kMaxUnitBytes - 1) / kMaxUnitBytes;
    const auto units = static_cast<std::uint32_t>(least + random() % 10'000);
    if (units > size) continue;
    const WriteLimits limits = limits_of(4, 4, 1 + random() % (2 * kMiB));
    std::uint64_t bytes = 0;
    std::uint64_t got_units = 0;
    for (const BuiltWrite& write : build_all({{0, 0, size, units}}, limits)) {
      ASSERT_LE(write.size_bytes, std::max(limits.merge_bytes, kMaxUnitBytes)) << round;
      ASSERT_GE(write.units, 1u);
      bytes += write.size_bytes;
      got_units += write.units;
    }
    ASSERT_EQ(bytes, size);
    ASSERT_EQ(got_units, units);
  }
}

TEST(CheckRuns, AcceptsWhatFits) {
  const std::uint64_t huge = ~std::uint64_t{0};
  const std::vector<WriteRun> runs = {
      {0, 0, 100, 1},
      {0, 900, 100, 100},
      {0, 900, 100, 1, 1, huge, huge},  // strides of one range do not matter
      {0, 0, 100, 1, 10, 0, 100},       // the same source again
      {0, 0, 10, 1, 10, 10, 10},        // up to the end of the source
      {0, 0, 10, 1, 91, 1, 10},         // overlapping sources, up to the end
      {90, 0, 10, 1, 100, 0, 10},       // up to the end of the target
      {0, 0, 10, 1, 2, 90, 990},        // up to both ends
  };
  for (const WriteRun& run : runs) EXPECT_TRUE(check_runs({&run, 1}, 100, 1000).ok());
  EXPECT_TRUE(check_runs(runs, 100, 1000).ok());
  // The largest regions there can be.
  const WriteRun far_apart = {0, 0, 1, 1, 2, huge - 1, huge - 1};
  EXPECT_TRUE(check_runs({&far_apart, 1}, huge, huge).ok());
  EXPECT_FALSE(check_runs({&far_apart, 1}, huge - 1, huge).ok());
  EXPECT_FALSE(check_runs({&far_apart, 1}, huge, huge - 1).ok());
}

TEST(CheckRuns, RefusesWhatDoesNotFit) {
  const std::uint64_t huge = ~std::uint64_t{0};
  const std::vector<WriteRun> bad = {
      {0, 0, 0, 1},         // no bytes
      {1, 0, 100, 1},       // beyond the source
      {0, 901, 100, 1},     // beyond the target
      {huge, 0, 2, 1},      // the sum overflows
      {0, huge - 1, 2, 1},  // the sum overflows
      {0, 0, huge, 1},      // longer than either
      {0, 0, 100, 0},       // no units
      {0, 0, 100, 101},     // more units than bytes
  };
  for (const WriteRun& run : bad) {
    const Status status = check_runs({&run, 1}, 100, 1000);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << run.size_bytes;
    EXPECT_NE(status.text().find("run 0"), std::string::npos);
  }
  const std::vector<WriteRun> repeats = {
      {0, 0, 10, 1, 0, 10, 10},                      // no ranges
      {0, 0, 10, 1, 0, 0, 0},                        // no ranges, wherever they would be
      {1, 0, 10, 1, 10, 10, 10},                     // the last one beyond the source
      {0, 901, 10, 1, 10, 10, 10},                   // the last one beyond the target
      {0, 0, 10, 1, 2, 91, 10},                      // the same by its stride
      {0, 0, 10, 1, 2, 10, 991},                     // the same by its stride
      {0, 0, 10, 1, 101, 0, 10},                     // one more than the target holds
      {0, 0, 10, 1, 2, 10, 9},                       // overlap in the target
      {0, 0, 10, 1, 2, 10, 0},                       // all of them in one place
      {0, 0, 10, 1, ~std::uint32_t{0}, 0, 10},       // as many as can be
      {0, 0, 10, 1, 2, huge, 10},                    // the last one's end overflows
      {0, 0, 10, 1, 2, 10, huge},                    // the last one's end overflows
      {20, 0, 10, 1, 2, huge - 9, 10},               // the last one's offset, to one inside
      {0, 20, 10, 1, 2, 10, huge - 9},               // the last one's offset, to one inside
      {0, 0, 10, 1, 5, std::uint64_t{1} << 62, 10},  // the product overflows to 0
      {0, 0, 10, 1, 5, 10, std::uint64_t{1} << 62},  // the product overflows to 0
      {0, 0, 10, 1, ~std::uint32_t{0}, huge, huge},  // the largest product
      {0, 0, 10, 11, 2, 10, 10},                     // more units than bytes
  };
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    const Status status = check_runs({&repeats[i], 1}, 100, 1000);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << i;
    EXPECT_NE(status.text().find("run 0"), std::string::npos);
  }
  const WriteRun long_unit = {0, 0, kMaxUnitBytes + 1, 1};
  EXPECT_FALSE(check_runs({&long_unit, 1}, 4 * kMiB, 4 * kMiB).ok());
}

}  // namespace
}  // namespace kvrail

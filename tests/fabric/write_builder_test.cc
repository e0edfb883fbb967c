#include "fabric/write_builder.h"

#include <gtest/gtest.h>

#include <random>
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
  EXPECT_EQ(writes[0].runs, 2u);
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
  std::uint64_t got_runs = 0;
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
    got_runs += write.runs;
  }
  ASSERT_EQ(got, wanted);
  ASSERT_EQ(got_units, units);
  ASSERT_EQ(got_runs, runs.size());
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
    const WriteLimits limits = limits_of(1 + random() % 4, 1 + random() % 4, 1 + random() % 500);
    ASSERT_NO_FATAL_FAILURE(expect_same_copies(runs, build_all(runs, limits), limits)) << round;
  }
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
  const std::vector<WriteRun> runs = {{0, 0, 100, 1}, {0, 900, 100, 100}};
  EXPECT_TRUE(check_runs(runs, 100, 1000).ok());
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
  const WriteRun long_unit = {0, 0, kMaxUnitBytes + 1, 1};
  EXPECT_FALSE(check_runs({&long_unit, 1}, 4 * kMiB, 4 * kMiB).ok());
}

}  // namespace
}  // namespace kvrail

#include "layout/page_overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace kvrail {
namespace {

RowSeries series_of(std::uint64_t base, std::uint64_t stride, std::uint64_t page,
                    std::uint32_t count, std::uint32_t region = 0) {
  return {RegionId{region}, base, stride, page, stride, page, base + (count - 1) * stride + page};
}

// Whether a byte is in two pages.
bool shares_bytes(const std::vector<RowSeries>& all, std::uint32_t count) {
  std::set<std::pair<RegionId, std::uint64_t>> bytes;
  for (const RowSeries& series : all) {
    for (std::uint32_t page = 0; page < count; ++page) {
      for (std::uint64_t i = 0; i < series.page_bytes; ++i) {
        if (!bytes.emplace(series.region, series.base_bytes + page * series.stride_bytes + i)
                 .second) {
          return true;
        }
      }
    }
  }
  return false;
}

TEST(PageOverlap, AgreesWithABitmapForEqualStrides) {
  std::mt19937_64 random(7);
  const auto pick = [&](std::uint64_t first, std::uint64_t last) {
    return std::uniform_int_distribution<std::uint64_t>(first, last)(random);
  };
  int overlapping = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto count = static_cast<std::uint32_t>(pick(1, 4));
    const std::uint64_t stride = pick(1, 12);
    std::vector<RowSeries> all(pick(1, 5));
    for (RowSeries& series : all) {
      series = series_of(pick(0, 60), stride, pick(1, (stride + 1) / 2), count,
                         static_cast<std::uint32_t>(pick(0, 1)));
      if (pick(0, 3) == 0) {
        series = series_of(series.base_bytes, stride, stride, count, series.region.value());
      }
    }
    const bool expected = shares_bytes(all, count);
    ASSERT_EQ(find_overlap(all).has_value(), expected) << "round " << round;
    overlapping += expected ? 1 : 0;
  }
  EXPECT_GT(overlapping, 4000);
  EXPECT_LT(overlapping, 16000);
}

TEST(PageOverlap, NamesTheTwo) {
  const std::vector<RowSeries> all = {series_of(100, 10, 10, 5), series_of(0, 10, 10, 5),
                                      series_of(149, 10, 10, 5)};
  EXPECT_EQ(find_overlap(all), (std::pair<std::size_t, std::size_t>(0, 2)));
}

TEST(PageOverlap, RefusesSeriesOfDifferentStridesThatReachIntoEachOther) {
  EXPECT_TRUE(find_overlap(std::vector{series_of(0, 20, 5, 3), series_of(10, 40, 5, 3)}));
  EXPECT_FALSE(find_overlap(std::vector{series_of(0, 20, 5, 3), series_of(45, 40, 5, 3)}));
}

// Two pages of four rows of three bytes, twelve bytes apart from row to row.
RowSeries rows_of_three(std::uint64_t base, std::uint64_t stride) {
  return {RegionId{0}, base, stride, 39, 12, 3, base + stride + 39};
}

TEST(PageOverlap, KnowsRowsThatInterleave) {
  EXPECT_FALSE(find_overlap(std::vector{rows_of_three(0, 48), rows_of_three(3, 48),
                                        rows_of_three(9, 48), rows_of_three(6, 48)}));
  EXPECT_TRUE(find_overlap(std::vector{rows_of_three(0, 48), rows_of_three(2, 48)}));
  EXPECT_TRUE(find_overlap(std::vector{rows_of_three(0, 48), rows_of_three(10, 48)}));
  // Beyond the first row: not known to lie apart.
  EXPECT_TRUE(find_overlap(std::vector{rows_of_three(0, 48), rows_of_three(15, 48)}));
}

TEST(PageOverlap, KnowsPagesOfSuchRowsThatInterleave) {
  // Two layers in one page, each with two tensors.
  EXPECT_FALSE(find_overlap(std::vector{rows_of_three(0, 96), rows_of_three(3, 96),
                                        rows_of_three(48, 96), rows_of_three(51, 96)}));
  EXPECT_TRUE(find_overlap(std::vector{rows_of_three(0, 96), rows_of_three(3, 96),
                                       rows_of_three(41, 96), rows_of_three(51, 96)}));
}

}  // namespace
}  // namespace kvrail

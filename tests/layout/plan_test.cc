#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "kvrail/transfer_plan.h"
#include "kvrail/write_list.h"
#include "layout/small_layout.h"

namespace kvrail {

void PrintTo(const PlannedRun& run, std::ostream* out) {
  *out << "{rank " << run.source_rank.value() << " to " << run.target_rank.value() << ", tensor "
       << run.tensor << ": " << run.source_offset_bytes << " to " << run.target_offset_bytes << ", "
       << run.size_bytes << " bytes, " << run.units << " units, " << run.count << " times by "
       << run.source_stride_bytes << " and " << run.target_stride_bytes << "}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr CacheGroupIndex kGroup{0};

PlannedRun run(std::uint32_t tensor, std::uint64_t source, std::uint64_t target, std::uint64_t size,
               std::uint32_t rank = 0) {
  PlannedRun run;
  run.path = PathIndex{rank};
  run.source_rank = RankIndex{rank};
  run.target_rank = RankIndex{rank};
  run.tensor = tensor;
  run.source_offset_bytes = source;
  run.target_offset_bytes = target;
  run.size_bytes = size;
  return run;
}

// The same range of `count` heads or tokens.
PlannedRun repeated(PlannedRun run, std::uint32_t count, std::uint64_t source_stride,
                    std::uint64_t target_stride) {
  run.count = count;
  run.source_stride_bytes = source_stride;
  run.target_stride_bytes = target_stride;
  return run;
}

std::vector<PlannedRun> runs_of(const TransferPlan& plan, TokenRange sent, TokenRange finished,
                                const RequestPages& source, const RequestPages& target) {
  check_pages(plan.source(), sent, source);
  check_pages(plan.target(), sent, target);
  std::vector<PlannedRun> runs;
  plan.append_runs(kGroup, sent, finished, first_sources(plan, sent), source, target, runs);
  return runs;
}

std::uint64_t units_of(const std::vector<PlannedRun>& runs) {
  std::uint64_t units = 0;
  for (const PlannedRun& run : runs) {
    units += std::uint64_t{run.units} * run.count;
  }
  return units;
}

TransferPlan plan_between(const KvCacheOptions& source, const KvCacheOptions& target) {
  return TransferPlan(layout_of(source), layout_of(target));
}

// One tensor makes for short expectations: a latent of 32 bytes, so a page has 128.
KvCacheOptions latent_options() {
  KvCacheOptions options = small_options();
  options.model.latent_size = 16;
  return options;
}

TEST(Plan, SendsAWholeHndPageOfAllHeadsAsOneUnit) {
  KvCacheOptions options = small_options();
  options.fused_kv = false;
  const TransferPlan plan = plan_between(options, options);
  EXPECT_THAT(runs_of(plan, {0, 8}, {0, 8}, one_table({5, 1}), one_table({2, 7})),
              ElementsAre(run(0, 5 * 128, 2 * 128, 128), run(0, 1 * 128, 7 * 128, 128),
                          run(1, 5 * 128, 2 * 128, 128), run(1, 1 * 128, 7 * 128, 128)));
  // Two pages of two tensors in two layers.
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {0, 8}), ElementsAre(8));
}

TEST(Plan, SendsAPartOfAnHndPageAsOneUnitPerHead) {
  KvCacheOptions options = small_options();
  options.fused_kv = false;
  const TransferPlan plan = plan_between(options, options);
  // Tokens 1 and 2 of page 3: slot 1 of each head.
  const auto runs = runs_of(plan, {1, 3}, {0, 3}, one_table({3}), one_table({0}));
  EXPECT_THAT(runs, ElementsAre(repeated(run(0, 3 * 128 + 8, 8, 16), 4, 32, 32),
                                repeated(run(1, 3 * 128 + 8, 8, 16), 4, 32, 32)));
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {1, 3}), ElementsAre(16));
}

TEST(Plan, SendsAPartOfAnHndPageWithOneHeadPerRankAsOneUnit) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 4;
  options.fused_kv = false;
  const TransferPlan plan = plan_between(options, options);
  const auto runs = runs_of(plan, {1, 3}, {0, 3}, one_table({3}), one_table({0}));
  EXPECT_THAT(runs, ElementsAre(run(0, 3 * 32 + 8, 8, 16, 0), run(1, 3 * 32 + 8, 8, 16, 0),
                                run(0, 3 * 32 + 8, 8, 16, 1), run(1, 3 * 32 + 8, 8, 16, 1),
                                run(0, 3 * 32 + 8, 8, 16, 2), run(1, 3 * 32 + 8, 8, 16, 2),
                                run(0, 3 * 32 + 8, 8, 16, 3), run(1, 3 * 32 + 8, 8, 16, 3)));
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {1, 3}), ElementsAre(4, 4, 4, 4));
}

TEST(Plan, SendsAPartOfAnNhdPageAsOneUnit) {
  KvCacheOptions options = small_options();
  options.fused_kv = false;
  options.order = PageOrder::kNhd;
  const TransferPlan plan = plan_between(options, options);
  // A token has 4 heads of 8 bytes.
  EXPECT_THAT(runs_of(plan, {1, 7}, {0, 7}, one_table({3, 4}), one_table({0, 6})),
              ElementsAre(run(0, 3 * 128 + 32, 32, 96), run(0, 4 * 128, 6 * 128, 96),
                          run(1, 3 * 128 + 32, 32, 96), run(1, 4 * 128, 6 * 128, 96)));
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {1, 7}), ElementsAre(8));
}

TEST(Plan, PutsKAndVOfAPageNextToEachOtherWhereBothSidesFuseThem) {
  const TransferPlan plan = plan_between(small_options(), small_options());
  const auto runs = runs_of(plan, {0, 8}, {0, 8}, one_table({5, 6}), one_table({2, 3}));
  // One stride of 256 bytes; V is 128 bytes behind K, in the base of its placement.
  EXPECT_THAT(runs, ElementsAre(run(0, 5 * 256, 2 * 256, 128), run(1, 5 * 256, 2 * 256, 128),
                                run(0, 6 * 256, 3 * 256, 128), run(1, 6 * 256, 3 * 256, 128)));
}

TEST(Plan, OrdersFusedTensorsByAddress) {
  KvLayout layout = layout_of(small_options());
  for (TensorPlacement& placement : layout.ranks[0].groups[0].placements) {
    placement.tensor = 1 - placement.tensor;
  }
  const TransferPlan plan(layout, layout);
  EXPECT_THAT(runs_of(plan, {0, 4}, {0, 4}, one_table({5}), one_table({2})),
              ElementsAre(run(1, 5 * 256, 2 * 256, 128), run(0, 5 * 256, 2 * 256, 128)));
}

TEST(Plan, GoesTensorByTensorWhereOneSideSeparatesThem) {
  KvCacheOptions separate = small_options();
  separate.fused_kv = false;
  EXPECT_THAT(runs_of(plan_between(small_options(), separate), {0, 8}, {0, 8}, one_table({5, 6}),
                      one_table({2, 3})),
              ElementsAre(run(0, 5 * 256, 2 * 128, 128), run(0, 6 * 256, 3 * 128, 128),
                          run(1, 5 * 256, 2 * 128, 128), run(1, 6 * 256, 3 * 128, 128)));
  EXPECT_THAT(runs_of(plan_between(separate, small_options()), {0, 8}, {0, 8}, one_table({5, 6}),
                      one_table({2, 3})),
              ElementsAre(run(0, 5 * 128, 2 * 256, 128), run(0, 6 * 128, 3 * 256, 128),
                          run(1, 5 * 128, 2 * 256, 128), run(1, 6 * 128, 3 * 256, 128)));
}

TEST(Plan, GoesTensorByTensorWhereTheyAreInTwoRegions) {
  // At the same offsets as if they were fused.
  KvLayout layout = layout_of(small_options());
  for (TensorPlacement& placement : layout.ranks[0].groups[0].placements) {
    placement.region = RegionId{placement.tensor};
  }
  EXPECT_THAT(
      runs_of(TransferPlan(layout, layout), {0, 8}, {0, 8}, one_table({5, 6}), one_table({2, 3})),
      ElementsAre(run(0, 5 * 256, 2 * 256, 128), run(0, 6 * 256, 3 * 256, 128),
                  run(1, 5 * 256, 2 * 256, 128), run(1, 6 * 256, 3 * 256, 128)));
}

TEST(Plan, SendsAPageWithTheChunkThatEndsIt) {
  const TransferPlan plan = plan_between(latent_options(), latent_options());
  const RequestPages source = one_table({4, 5, 6});
  const RequestPages target = one_table({1, 2, 3});
  const TokenRange sent{0, 10};
  // The page of tokens 4 to 7 begins in the first chunk and goes whole with the second.
  EXPECT_THAT(runs_of(plan, sent, {0, 6}, source, target),
              ElementsAre(run(0, 4 * 128, 1 * 128, 128)));
  EXPECT_THAT(runs_of(plan, sent, {6, 8}, source, target),
              ElementsAre(run(0, 5 * 128, 2 * 128, 128)));
  EXPECT_THAT(runs_of(plan, sent, {8, 9}, source, target), IsEmpty());
  EXPECT_THAT(runs_of(plan, sent, {9, 12}, source, target),
              ElementsAre(run(0, 6 * 128, 3 * 128, 64)));
}

TEST(Plan, LeavesOutWhatTheTargetHasCached) {
  const TransferPlan plan = plan_between(latent_options(), latent_options());
  const RequestPages source = one_table({4, 5});
  const RequestPages target = one_table({1, 2});
  EXPECT_THAT(runs_of(plan, {6, 8}, {0, 8}, source, target),
              ElementsAre(run(0, 5 * 128 + 64, 2 * 128 + 64, 64)));
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {6, 8}), ElementsAre(2));
}

TEST(Plan, SendsNothingOfAnEmptyRange) {
  const TransferPlan plan = plan_between(latent_options(), latent_options());
  EXPECT_THAT(runs_of(plan, {4, 4}, {0, 8}, one_table({0}), one_table({0})), IsEmpty());
  EXPECT_THAT(runs_of(plan, {6, 4}, {0, 8}, one_table({0}), one_table({0})), IsEmpty());
  EXPECT_THAT(runs_of(plan, {0, 4}, {4, 8}, one_table({0}), one_table({0})), IsEmpty());
  EXPECT_THAT(runs_of(plan, {0, 4}, {3, 3}, one_table({0}), one_table({0})), IsEmpty());
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {4, 4}), ElementsAre(0));
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {6, 4}), ElementsAre(0));
}

TEST(Plan, SendsOneToken) {
  const TransferPlan plan = plan_between(latent_options(), latent_options());
  EXPECT_THAT(runs_of(plan, {0, 1}, {0, 1}, one_table({7}), one_table({0})),
              ElementsAre(run(0, 7 * 128, 0, 32)));
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {0, 1}), ElementsAre(2));
}

TEST(Plan, EndsWithTheLastPageOfAnExactMultiple) {
  const TransferPlan plan = plan_between(latent_options(), latent_options());
  EXPECT_EQ(runs_of(plan, {0, 8}, {0, 8}, one_table({0, 1}), one_table({1, 0})).size(), 2u);
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {0, 8}), ElementsAre(4));
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {0, 9}), ElementsAre(6));
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {3, 9}), ElementsAre(6));
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {4, 8}), ElementsAre(2));
}

TEST(Plan, CountsAWholeMaximalPromptWithoutWalkingIt) {
  const TransferPlan plan = plan_between(latent_options(), latent_options());
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {1, UINT32_MAX}),
              ElementsAre(2 * (std::uint64_t{1} << 30)));
}

TEST(Plan, CountsALongRangeInUnitsOfTheLargestWrite) {
  KvCacheOptions options = latent_options();
  // A page of 4 tokens of 16-bit elements is 8 bytes too long for one unit.
  options.model.latent_size = kMaxUnitBytes / 8 + 1;
  const TransferPlan plan = plan_between(options, options);
  const auto runs = runs_of(plan, {0, 8}, {0, 8}, one_table({0, 1}), one_table({1, 0}));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].size_bytes, kMaxUnitBytes + 8);
  EXPECT_EQ(units_of(runs), 4u);
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {0, 8}), ElementsAre(8));
  // Three tokens are one unit; what is just as long as the largest write, too.
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {0, 3}), ElementsAre(2));
  options.model.latent_size = kMaxUnitBytes / 8;
  EXPECT_THAT(plan_between(options, options).units_by_target_rank(DpRank{0}, {0, 4}),
              ElementsAre(2));
}

TEST(Plan, CountsContext) {
  KvCacheOptions options = small_options();
  EXPECT_EQ(plan_between(options, options).context_units(), 0u);
  options.context_slots = 2;
  EXPECT_EQ(plan_between(options, options).context_units(), 1u);
  options.context_slot_bytes = 2 * kMaxUnitBytes + 1;
  EXPECT_EQ(plan_between(options, options).context_units(), 3u);
}

TEST(Plan, LeavesOutStagesThatARankDoesNotHold) {
  // Two pipeline stages of one layer each.
  KvCacheOptions options = latent_options();
  options.tensor_parallel = 2;
  KvLayout layout = layout_of(options);
  for (std::uint32_t r = 0; r < 2; ++r) {
    layout.ranks[r].tp_rank = 0;
    layout.ranks[r].pp_rank = r;
    layout.ranks[r].replica_set = 0;
    auto& placements = layout.ranks[r].groups[0].placements;
    placements.erase(placements.begin() + (1 - r));
  }
  const TransferPlan plan(layout, layout);
  EXPECT_THAT(plan.units_by_target_rank(DpRank{0}, {0, 8}), ElementsAre(2, 2));
}

}  // namespace
}  // namespace kvrail

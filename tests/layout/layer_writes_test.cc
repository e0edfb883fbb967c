#include "layout/layer_writes.h"

#include <gtest/gtest.h>

#include <vector>

#include "layout/small_layout.h"

namespace kvrail {
namespace {

constexpr CacheGroupIndex kGroup{0};

std::vector<PlannedRun> all_runs(const TransferPlan& plan, TokenRange sent,
                                 const RequestPages& source, const RequestPages& target) {
  std::vector<PlannedRun> runs;
  plan.append_runs(kGroup, sent, sent, first_sources(plan, sent), source, target, runs);
  return runs;
}

TEST(LayerWrites, AddsTheBasesOfTheLayer) {
  KvCacheOptions target = small_options();
  target.page_count = 16;
  const TransferPlan plan(layout_of(small_options(), 3), layout_of(target, 5));
  const auto runs = all_runs(plan, {0, 8}, one_table({5, 6}), one_table({9, 10}));
  const LayerWriter writer(plan);
  std::vector<RegionWrites> writes;
  writer.append(LayerIndex{1}, runs, writes);
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].source_region, RegionId{3});
  EXPECT_EQ(writes[0].target_region, RegionId{5});
  ASSERT_EQ(writes[0].runs.size(), 4u);
  // A layer has 8 pages of 256 bytes at the source, 16 at the target.
  EXPECT_EQ(writes[0].runs[0].source_offset, 2048u + 5 * 256);
  EXPECT_EQ(writes[0].runs[0].target_offset, 4096u + 9 * 256);
  EXPECT_EQ(writes[0].bytes, 512u);
  EXPECT_EQ(writes[0].units, 4u);
  // K and V of both pages are one range.
  for (std::size_t i = 1; i < writes[0].runs.size(); ++i) {
    const WriteRun& before = writes[0].runs[i - 1];
    EXPECT_EQ(writes[0].runs[i].source_offset, before.source_offset + before.size_bytes);
    EXPECT_EQ(writes[0].runs[i].target_offset, before.target_offset + before.size_bytes);
  }
}

TEST(LayerWrites, KeepsRanksAndRegionsApart) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 2;
  options.fused_kv = false;
  KvLayout target = layout_of(options, 10);
  // V of rank 1 is in a region of its own.
  for (TensorPlacement& placement : target.ranks[1].groups[0].placements) {
    if (placement.tensor == 1) {
      placement.region = RegionId{20};
    }
  }
  const TransferPlan plan(layout_of(options, 0), target);
  const auto runs = all_runs(plan, {0, 4}, one_table({0}), one_table({0}));
  std::vector<RegionWrites> writes;
  const LayerWriter writer(plan);
  writer.append(LayerIndex{0}, runs, writes);
  ASSERT_EQ(writes.size(), 3u);
  EXPECT_EQ(writes[0].target_rank, RankIndex{0});
  EXPECT_EQ(writes[0].runs.size(), 2u);
  EXPECT_EQ(writes[1].target_rank, RankIndex{1});
  EXPECT_EQ(writes[1].target_region, RegionId{11});
  EXPECT_EQ(writes[2].target_region, RegionId{20});
  EXPECT_EQ(writes[2].source_region, RegionId{1});
  // Another layer adds to the same entries.
  writer.append(LayerIndex{1}, runs, writes);
  ASSERT_EQ(writes.size(), 3u);
  EXPECT_EQ(writes[0].runs.size(), 4u);
}

TEST(LayerWrites, LeavesOutLayersOfOtherStages) {
  KvCacheOptions options = small_options();
  options.model.latent_size = 16;
  options.tensor_parallel = 2;
  KvLayout layout = layout_of(options);
  for (std::uint32_t r = 0; r < 2; ++r) {
    layout.ranks[r].replica_set = 0;
    auto& placements = layout.ranks[r].groups[0].placements;
    placements.erase(placements.begin() + (1 - r));
  }
  const TransferPlan plan(layout, layout);
  const auto runs = all_runs(plan, {0, 4}, one_table({0}), one_table({0}));
  const LayerWriter writer(plan);
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    std::vector<RegionWrites> writes;
    writer.append(LayerIndex{layer}, runs, writes);
    ASSERT_EQ(writes.size(), 1u);
    EXPECT_EQ(writes[0].source_rank, RankIndex{layer});
  }
}

TEST(LayerWrites, FillsAContextSlot) {
  KvCacheOptions options = small_options();
  options.context_slots = 3;
  options.context_slot_bytes = kMaxUnitBytes + 1;
  const std::vector<RegionId> context_regions = {RegionId{8}};
  const KvLayout target = make_kv_layout(
      options, std::vector<RankMemory>{{RegionId{7}, DeviceGroupId{0}}}, context_regions);
  const TransferPlan plan(layout_of(options, 2), target);
  const auto all = context_writes(plan, DpRank{0}, ContextSlot{1}, DpRank{0}, ContextSlot{2});
  ASSERT_EQ(all.size(), 1u);
  const RegionWrites& writes = all[0];
  EXPECT_EQ(writes.source_region, RegionId{2});
  EXPECT_EQ(writes.target_region, RegionId{8});
  ASSERT_EQ(writes.runs.size(), 1u);
  const std::uint64_t stride = kMaxUnitBytes + 64;
  EXPECT_EQ(writes.runs[0].source_offset, 4096 + stride);
  EXPECT_EQ(writes.runs[0].target_offset, 2 * stride);
  EXPECT_EQ(writes.runs[0].size_bytes, kMaxUnitBytes + 1);
  EXPECT_EQ(writes.runs[0].units, 2u);
  EXPECT_EQ(writes.units, 2u);
  EXPECT_EQ(writes.bytes, kMaxUnitBytes + 1);
}

// Every data-parallel rank has slots, and every context of the target's gets a copy.
TEST(LayerWrites, FillsTheContextsOfOneDataParallelRank) {
  KvCacheOptions options = small_options();
  options.context_slots = 2;
  options.data_parallel = 2;
  const KvLayout source = layout_of(options, 0);
  options.tensor_parallel = 2;
  KvLayout target = layout_of(options, 10);
  for (const std::uint32_t rank : {1u, 3u}) {
    ContextLayout context = target.contexts[0];
    context.rank = RankIndex{rank};
    context.region = RegionId{20 + rank};
    target.contexts.push_back(context);
  }
  const TransferPlan plan(source, target);
  const auto writes = context_writes(plan, DpRank{1}, ContextSlot{0}, DpRank{1}, ContextSlot{1});
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(writes[0].source_rank, RankIndex{1});
  EXPECT_EQ(writes[0].target_rank, RankIndex{2});
  EXPECT_EQ(writes[0].target_region, RegionId{12});
  EXPECT_EQ(writes[1].source_rank, RankIndex{1});
  EXPECT_EQ(writes[1].target_region, RegionId{23});
}

}  // namespace
}  // namespace kvrail

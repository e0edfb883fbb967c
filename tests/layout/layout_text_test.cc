#include <gtest/gtest.h>

#include <utility>

#include "kvrail/kv_layout.h"
#include "layout/small_layout.h"

namespace kvrail {
namespace {

TEST(LayoutText, HasOneLinePerFact) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 2;
  options.context_slots = 4;
  EXPECT_EQ(to_text(layout_of(options)),
            "model \"small\": 2 layers\n"
            "group 0 \"full\": pages of 4 tokens, layers 0-1\n"
            "group 0 tensor 0 \"k\": 4 heads of 8 bytes, HND\n"
            "group 0 tensor 1 \"v\": 4 heads of 8 bytes, HND\n"
            "rank 0: dp 0, tp 0, pp 0, cp 0, replica set 0\n"
            "rank 0 group 0: heads 0-1, layers 0-1\n"
            "rank 1: dp 0, tp 1, pp 0, cp 0, replica set 0\n"
            "rank 1 group 0: heads 2-3, layers 0-1\n"
            "context on rank 0: slots of 32 bytes\n");
}

TEST(LayoutText, DoesNotDependOnPlacement) {
  KvCacheOptions options = small_options();
  KvLayout layout = layout_of(options);
  options.page_count = 77;
  options.fused_kv = false;
  KvLayout moved = layout_of(options, 9);
  moved.ranks[0].device_group = DeviceGroupId{3};
  std::swap(moved.groups[0].layers[0], moved.groups[0].layers[1]);
  std::swap(moved.ranks[0].groups[0].placements[0], moved.ranks[0].groups[0].placements[3]);
  EXPECT_EQ(to_text(layout), to_text(moved));
}

TEST(LayoutText, ListsGapsAndHeadsThatDiffer) {
  KvLayout layout;
  layout.model = "odd";
  layout.layer_count = 6;
  CacheGroup group;
  group.name = "g";
  group.page_tokens = 1;
  group.tensors = {{"a", 2, 1, PageOrder::kNhd}, {"b", 3, 1, PageOrder::kHnd}};
  for (const std::uint32_t layer : {5u, 0u, 1u, 3u}) {
    group.layers.push_back(LayerIndex{layer});
  }
  layout.groups = {group};
  RankGroup held;
  held.heads = {{0, 2}, {0, 0}};
  for (const LayerIndex layer : group.layers) {
    held.placements.push_back({layer, 0, RegionId{0}, 0, 0, 0, 0});
  }
  layout.ranks.resize(2);
  layout.ranks[1].replica_set = 4;
  layout.ranks[1].groups = {held};
  EXPECT_EQ(to_text(layout),
            "model \"odd\": 6 layers\n"
            "group 0 \"g\": pages of 1 tokens, layers 0-1, 3, 5\n"
            "group 0 tensor 0 \"a\": 2 heads of 1 bytes, NHD\n"
            "group 0 tensor 1 \"b\": 3 heads of 1 bytes, HND\n"
            "rank 0: dp 0, tp 0, pp 0, cp 0, replica set 0\n"
            "rank 1: dp 0, tp 0, pp 0, cp 0, replica set 4\n"
            "rank 1 group 0: heads 0-1 / none, layers 0-1, 3, 5\n");
}

TEST(LayoutText, TellsWindowsStatesDealsAndStrides) {
  KvLayout layout = layout_of(small_options());
  layout.groups[0].window_tokens = 12;
  layout.groups[0].cp_ranks = 2;
  layout.groups[0].cp_interleave_tokens = 4;
  layout.ranks[0].dp_rank = DpRank{3};
  for (TensorPlacement& placement : layout.ranks[0].groups[0].placements) {
    if (placement.tensor == 1) placement.token_stride_bytes = 16;
  }
  EXPECT_EQ(to_text(layout),
            "model \"small\": 2 layers\n"
            "group 0 \"full\": pages of 4 tokens, window of 12, dealt to 2 cp ranks 4 tokens at a "
            "time, layers 0-1\n"
            "group 0 tensor 0 \"k\": 4 heads of 8 bytes, HND\n"
            "group 0 tensor 1 \"v\": 4 heads of 8 bytes, HND\n"
            "rank 0: dp 3, tp 0, pp 0, cp 0, replica set 0\n"
            "rank 0 group 0: heads 0-3, layers 0-1\n"
            "rank 0 group 0 tensor 1: strides 16 of tokens\n");
  layout.groups[0].kind = CacheKind::kState;
  EXPECT_NE(to_text(layout).find("group 0 \"full\": one state per sequence, window"),
            std::string::npos);
}

TEST(LayoutText, TakesLayoutsThatAreNotValid) {
  KvLayout layout;
  EXPECT_EQ(to_text(layout), "model \"\": 0 layers\n");
  layout.groups.resize(1);
  layout.groups[0].tensors.resize(1);
  layout.groups[0].tensors[0].order = static_cast<PageOrder>(9);
  layout.groups[0].layers = {LayerIndex{UINT32_MAX}, LayerIndex{UINT32_MAX}};
  layout.ranks.resize(1);
  layout.ranks[0].groups.resize(3);
  layout.ranks[0].groups[2].placements.resize(1);
  layout.ranks[0].groups[2].heads = {{UINT32_MAX, UINT32_MAX}};
  EXPECT_EQ(to_text(layout),
            "model \"\": 0 layers\n"
            "group 0 \"\": pages of 0 tokens, layers 4294967295\n"
            "group 0 tensor 0 \"\": 1 heads of 0 bytes, unknown order\n"
            "rank 0: dp 0, tp 0, pp 0, cp 0, replica set 0\n"
            "rank 0 group 2: heads 4294967295-8589934589, layers 0\n");
}

}  // namespace
}  // namespace kvrail

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "kvrail/error.h"
#include "kvrail/kv_layout.h"
#include "layout/small_layout.h"

namespace kvrail {
namespace {

using ::testing::HasSubstr;

std::string refusal(const KvLayout& layout) {
  try {
    validate(layout);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

// Two ranks with two heads each, fused, and context slots.
KvLayout valid_layout() {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 2;
  options.context_slots = 2;
  return layout_of(options);
}

std::string refusal_after(const std::function<void(KvLayout&)>& change) {
  KvLayout layout = valid_layout();
  change(layout);
  return refusal(layout);
}

RankGroup& held(KvLayout& layout, std::size_t rank = 0) { return layout.ranks[rank].groups[0]; }

TEST(Validate, AcceptsWhatTheBuildersMake) {
  EXPECT_EQ(refusal(valid_layout()), "accepted");
  EXPECT_EQ(refusal(layout_of(small_options())), "accepted");
}

TEST(Validate, ChecksNames) {
  EXPECT_THAT(refusal_after([](auto& l) { l.model.clear(); }), HasSubstr("model has 0 characters"));
  EXPECT_THAT(refusal_after([](auto& l) { l.model = std::string(257, 'x'); }),
              HasSubstr("model has 257 characters, but must have 1 to 256"));
  EXPECT_THAT(refusal_after([](auto& l) { l.model = "a\nrank 7"; }),
              HasSubstr("model must be printable ASCII"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].name = std::string("\xff"); }),
              HasSubstr("groups[0].name must be printable"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].tensors[1].name.clear(); }),
              HasSubstr("groups[0].tensors[1].name has 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].tensors[1].name = std::string("k"); }),
              HasSubstr("groups[0].tensors[1].name is \"k\", as is another's"));
}

TEST(Validate, ChecksCounts) {
  EXPECT_THAT(refusal_after([](auto& l) { l.layer_count = 0; }), HasSubstr("layer_count is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.layer_count = 4097; }),
              HasSubstr("layer_count is 4097, but must be 1 to 4096"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups.clear(); }), HasSubstr("groups.size is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups.resize(65); }), HasSubstr("groups.size is 65"));
  EXPECT_THAT(refusal_after([](auto& l) { l.ranks.clear(); }), HasSubstr("ranks.size is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.ranks.resize(1025); }),
              HasSubstr("ranks.size is 1025"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].tensors.resize(65); }),
              HasSubstr("groups[0].tensors.size is 65"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l).placements.resize((1u << 20) + 1); }),
              HasSubstr("more than 1048576 placements"));
}

TEST(Validate, ChecksSizesOfGroups) {
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].page_tokens = 0; }),
              HasSubstr("groups[0].page_tokens is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].page_tokens = 65537; }),
              HasSubstr("groups[0].page_tokens is 65537"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].page_count = 0; }),
              HasSubstr("groups[0].page_count is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].tensors[0].heads = 0; }),
              HasSubstr("groups[0].tensors[0].heads is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].tensors[0].heads = 65537; }),
              HasSubstr("groups[0].tensors[0].heads is 65537"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].tensors[1].head_bytes = 0; }),
              HasSubstr("groups[0].tensors[1].head_bytes is 0"));
  EXPECT_THAT(
      refusal_after([](auto& l) { l.groups[0].tensors[1].order = static_cast<PageOrder>(2); }),
      HasSubstr("groups[0].tensors[1].order is 2"));
  EXPECT_THAT(refusal_after([](auto& l) {
                l.groups[0].page_tokens = 65536;
                l.groups[0].tensors[0].heads = 65536;
                l.groups[0].tensors[0].head_bytes = UINT32_MAX;
              }),
              HasSubstr("is larger than 1099511627776 bytes"));
}

TEST(Validate, ChecksThatEveryLayerIsInOneGroup) {
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].layers.pop_back(); }),
              HasSubstr("layer 1 is in no group"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].layers[1] = LayerIndex{0}; }),
              HasSubstr("layer 0 is in two groups, or twice in groups[0]"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].layers[1] = LayerIndex{2}; }),
              HasSubstr("groups[0].layers is 2, but must be 0 to 1"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].layers.assign(1000, LayerIndex{0}); }),
              HasSubstr("groups[0].layers.size is 1000"));
}

TEST(Validate, ChecksWhatARankHolds) {
  EXPECT_THAT(refusal_after([](auto& l) { l.ranks[1].groups.clear(); }),
              HasSubstr("ranks[1].groups has 0 entries"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l, 1).placements.clear(); }),
              HasSubstr("ranks[1] has no placement"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l, 1).heads.pop_back(); }),
              HasSubstr("ranks[1].groups[0].heads has 1 ranges, but the group has 2"));
  EXPECT_THAT(refusal_after([](auto& l) {
                held(l, 1).heads[1] = {3, 2};
              }),
              HasSubstr("ranks[1].groups[0].heads[1] is 2 heads from 3 on, but the tensor has 4"));
  EXPECT_THAT(refusal_after([](auto& l) {
                held(l, 1).heads[1] = {UINT32_MAX, 2};
              }),
              HasSubstr("2 heads from 4294967295 on"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l).placements[0].layer = LayerIndex{2}; }),
              HasSubstr("names layer 2, which is not in the group"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l).placements[0].tensor = 2; }),
              HasSubstr("names tensor 2, but the group has 2"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l).heads[0].count = 0; }),
              HasSubstr("tensor 0: placed, but the rank holds no heads of it"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l).placements.push_back(held(l).placements[1]); }),
              HasSubstr("rank 0, group 0, layer 0, tensor 1 is placed twice"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l).placements.pop_back(); }),
              HasSubstr("rank 0 holds heads of 2 tensors of group 0, but places 1 of them for "
                        "layer 1"));
}

TEST(Validate, ChecksThatReplicaSetsAreWhole) {
  EXPECT_THAT(refusal_after([](auto& l) { l.ranks[1].replica_set = 1; }),
              HasSubstr("replica set 0 does not hold head 2 of layer 0, tensor 0"));
  EXPECT_THAT(refusal_after([](auto& l) {
                held(l, 1).heads[1] = {0, 2};
              }),
              HasSubstr("replica set 0 does not hold head 2 of layer 0, tensor 1"));
  EXPECT_THAT(refusal_after([](auto& l) {
                auto& placements = held(l, 1).placements;
                placements.erase(placements.begin() + 2, placements.end());
              }),
              HasSubstr("replica set 0 does not hold head 2 of layer 1, tensor 0"));
  EXPECT_THAT(refusal_after([](auto& l) {
                held(l, 0).heads[0] = {1, 2};
                held(l, 0).heads[1] = {1, 2};
              }),
              HasSubstr("replica set 0 does not hold head 0 of layer 0, tensor 0"));
}

TEST(Validate, ChecksPages) {
  // A page has 4 tokens x 2 heads x 8 bytes.
  EXPECT_THAT(refusal_after([](auto& l) { held(l).placements[0].page_stride_bytes = 63; }),
              HasSubstr("rank 0, group 0, layer 0, tensor 0: 8 pages of 4 tokens x 2 heads x 8 "
                        "bytes, strides 63 of pages, 8 of tokens, 32 of heads, from 0 on overlap"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l).placements[0].page_stride_bytes = UINT64_MAX; }),
              HasSubstr("exceed 64 bits"));
  EXPECT_THAT(refusal_after([](auto& l) {
                held(l).placements[0].base_offset_bytes = UINT64_MAX - 7 * 128 - 63;
              }),
              HasSubstr("exceed 64 bits"));
  EXPECT_THAT(
      refusal_after([](auto& l) { held(l).placements[2].page_stride_bytes = 256; }),
      HasSubstr("layer 1, tensor 0: strides are 256 of pages, 8 of tokens, 32 of heads, but "
                "128, 8, 32 for another layer"));
  EXPECT_THAT(refusal_after([](auto& l) { held(l).placements[1].base_offset_bytes = 63; }),
              HasSubstr("pages of (rank 0, group 0, layer 0, tensor 0) and of (rank 0, group 0, "
                        "layer 0, tensor 1) overlap in one region"));
  EXPECT_THAT(refusal_after([](auto& l) {
                for (TensorPlacement& placement : held(l, 1).placements) {
                  placement.region = RegionId{0};
                }
              }),
              HasSubstr("overlap in one region"));
}

TEST(Validate, ChecksContext) {
  EXPECT_THAT(refusal_after([](auto& l) { l.contexts[0].slot_count = 0; }),
              HasSubstr("contexts[0].slot_count is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.contexts[0].slot_bytes = 0; }),
              HasSubstr("contexts[0].slot_bytes is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.contexts[0].slot_stride_bytes = 31; }),
              HasSubstr("contexts[0].slot_stride_bytes is 31"));
  EXPECT_THAT(refusal_after([](auto& l) { l.contexts[0].rank = RankIndex{2}; }),
              HasSubstr("contexts[0].rank is 2"));
  EXPECT_EQ(refusal_after([](auto& l) { l.contexts[0].base_offset_bytes = UINT64_MAX - 64 - 32; }),
            "accepted");
  EXPECT_THAT(refusal_after([](auto& l) { l.contexts[0].base_offset_bytes = UINT64_MAX - 64; }),
              HasSubstr("contexts[0]: 2 slots of stride 64 from 18446744073709551551 on exceed"));
  EXPECT_THAT(refusal_after([](auto& l) { l.contexts[0].slot_stride_bytes = UINT64_MAX; }),
              HasSubstr("exceed 64 bits"));
  EXPECT_THAT(refusal_after([](auto& l) { l.contexts[0].base_offset_bytes -= 1; }),
              HasSubstr("context slots overlap the pages of rank 0, group 0, layer 1, tensor 1"));
}

TEST(Validate, ChecksContextsOfEveryRank) {
  EXPECT_THAT(refusal_after([](auto& l) { l.contexts.push_back(l.contexts[0]); }),
              HasSubstr("rank 0 has two contexts"));
  const auto add = [](KvLayout& l, const std::function<void(ContextLayout&)>& change) {
    ContextLayout second = l.contexts[0];
    second.rank = RankIndex{1};
    second.region = RegionId{7};
    change(second);
    l.contexts.push_back(second);
  };
  EXPECT_EQ(refusal_after([&](auto& l) { add(l, [](auto&) {}); }), "accepted");
  EXPECT_THAT(refusal_after([&](auto& l) { add(l, [](auto& c) { c.slot_count = 1; }); }),
              HasSubstr("contexts[1].slot_count, as contexts[0] has it, is 1, but must be 2"));
  EXPECT_THAT(refusal_after([&](auto& l) { add(l, [](auto& c) { c.region = RegionId{0}; }); }),
              HasSubstr("two contexts overlap in region 0"));
}

TEST(Validate, ChecksKindsAndDeals) {
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].kind = static_cast<CacheKind>(7); }),
              HasSubstr("groups[0].kind is 7"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].kind = CacheKind::kState; }),
              HasSubstr("groups[0].page_tokens of a state is 4, but must be 1 to 1"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].cp_ranks = 0; }),
              HasSubstr("groups[0].cp_ranks is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].cp_interleave_tokens = 0; }),
              HasSubstr("groups[0].cp_interleave_tokens is 0"));
  EXPECT_THAT(refusal_after([](auto& l) { l.groups[0].cp_ranks = 2; }),
              HasSubstr("replica set 0 does not hold head 0 of layer 0, tensor 0, cp_rank 1"));
  EXPECT_THAT(refusal_after([](auto& l) {
                l.groups[0].cp_ranks = 2;
                l.ranks[1].cp_rank = 2;
              }),
              HasSubstr("a rank has cp_rank 2, but group 0 deals its tokens to 2 of them"));
}

TEST(Validate, ChecksDataParallelRanks) {
  KvCacheOptions options = small_options();
  options.data_parallel = 2;
  options.tensor_parallel = 2;
  options.context_slots = 1;
  const KvLayout good = layout_of(options);
  const auto refusal_with = [&](const std::function<void(KvLayout&)>& change) {
    KvLayout layout = good;
    change(layout);
    return refusal(layout);
  };
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_THAT(refusal_with([](auto& l) { l.ranks[3].dp_rank = DpRank{0}; }),
              HasSubstr("dp_rank 1 has 1 ranks, but dp_rank 0 has 3"));
  EXPECT_THAT(refusal_with([](auto& l) {
                l.ranks[2].dp_rank = DpRank{2};
                l.ranks[3].dp_rank = DpRank{2};
              }),
              HasSubstr("dp_rank 1 has 0 ranks, but dp_rank 0 has 2"));
  EXPECT_THAT(refusal_with([](auto& l) { l.ranks[3].dp_rank = DpRank{4}; }),
              HasSubstr("dp_rank 4 is used by one of 4 ranks"));
  EXPECT_THAT(refusal_with([](auto& l) { l.ranks[3].dp_rank = DpRank{UINT32_MAX}; }),
              HasSubstr("dp_rank 4294967295 is used by one of 4 ranks"));
  EXPECT_THAT(refusal_with([](auto& l) { std::swap(l.ranks[2], l.ranks[3]); }),
              HasSubstr("rank 2 of dp_rank 1 is not sharded as rank 0 of dp_rank 0 is"));
  EXPECT_THAT(refusal_with([](auto& l) { l.contexts.pop_back(); }),
              HasSubstr("rank 2 of dp_rank 1 and rank 0 of dp_rank 0 must both have a context"));
}

// K and V of a head side by side, and rows with padding.
TEST(Validate, KnowsRowsThatInterleave) {
  const auto interleave = [](KvLayout& l, std::uint64_t v_base) {
    for (RankLayout& rank : l.ranks) {
      for (TensorPlacement& placement : rank.groups[0].placements) {
        placement.token_stride_bytes = 16;
        placement.head_stride_bytes = 64;
        placement.page_stride_bytes = 128;
        placement.base_offset_bytes =
            placement.layer.value() * 1024 + (placement.tensor == 1 ? v_base : 0);
      }
    }
  };
  EXPECT_EQ(refusal_after([&](auto& l) { interleave(l, 8); }), "accepted");
  EXPECT_THAT(refusal_after([&](auto& l) { interleave(l, 7); }),
              HasSubstr("overlap in one region"));
  EXPECT_THAT(refusal_after([](auto& l) {
                for (TensorPlacement& placement : held(l).placements) {
                  placement.token_stride_bytes = 7;
                }
              }),
              HasSubstr("strides 128 of pages, 7 of tokens, 32 of heads, from 0 on overlap"));
}

// As large as the limits allow, with as many ranks and layers as placements permit.
TEST(Validate, IsFastForTheLargestLayouts) {
  KvLayout layout;
  layout.model = "large";
  layout.layer_count = kMaxLayers;
  CacheGroup group;
  group.name = "full";
  group.page_tokens = 16;
  group.page_count = 1u << 20;
  group.tensors = {{"k", 1, 16, PageOrder::kHnd}};
  RankGroup held;
  held.heads = {{0, 1}};
  for (std::uint32_t layer = 0; layer < kMaxLayers; ++layer) {
    group.layers.push_back(LayerIndex{layer});
    // All layers of a page adjoin.
    held.placements.push_back({LayerIndex{layer}, 0, RegionId{0}, layer * std::uint64_t{256},
                               std::uint64_t{256} * kMaxLayers, 0, 0});
  }
  layout.groups = {group};
  layout.ranks.resize(kMaxPlacements / kMaxLayers);
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    layout.ranks[r].groups = {held};
    for (TensorPlacement& placement : layout.ranks[r].groups[0].placements) {
      placement.region = RegionId{static_cast<std::uint32_t>(r)};
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(refusal(layout), "accepted");
  layout.ranks[0].groups[0].placements.back().base_offset_bytes -= 1;
  EXPECT_THAT(refusal(layout), HasSubstr("overlap"));
  // It takes a second; what grows with the square of the placements would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50));
}

}  // namespace
}  // namespace kvrail

#include "kvrail/kv_builders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "layout/small_layout.h"

namespace kvrail {
namespace {

using ::testing::HasSubstr;

std::string refusal_after(const std::function<void(KvCacheOptions&)>& change) {
  KvCacheOptions options = small_options();
  change(options);
  try {
    layout_of(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(KvBuilders, FusesKAndVOfAPage) {
  const KvLayout layout = layout_of(small_options(), 4);
  EXPECT_EQ(kv_bytes_per_rank(small_options()), 4096u);
  const auto& placements = layout.ranks[0].groups[0].placements;
  ASSERT_EQ(placements.size(), 4u);
  EXPECT_EQ(placements[0], (TensorPlacement{LayerIndex{0}, 0, RegionId{4}, 0, 256}));
  EXPECT_EQ(placements[1], (TensorPlacement{LayerIndex{0}, 1, RegionId{4}, 128, 256}));
  EXPECT_EQ(placements[3], (TensorPlacement{LayerIndex{1}, 1, RegionId{4}, 2048 + 128, 256}));
}

TEST(KvBuilders, SeparatesKAndV) {
  KvCacheOptions options = small_options();
  options.fused_kv = false;
  const KvLayout layout = layout_of(options);
  const auto& placements = layout.ranks[0].groups[0].placements;
  EXPECT_EQ(placements[1], (TensorPlacement{LayerIndex{0}, 1, RegionId{0}, 1024, 128}));
  EXPECT_EQ(placements[2], (TensorPlacement{LayerIndex{1}, 0, RegionId{0}, 2048, 128}));
}

TEST(KvBuilders, DividesHeadsAmongRanks) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 2;
  EXPECT_EQ(kv_bytes_per_rank(options), 2048u);
  const KvLayout layout = layout_of(options);
  EXPECT_EQ(layout.ranks[1].groups[0].heads, (std::vector<HeadRange>{{2, 2}, {2, 2}}));
  EXPECT_EQ(layout.ranks[1].device_group, DeviceGroupId{1});
  EXPECT_EQ(layout.ranks[1].tp_rank, 1u);
  EXPECT_EQ(layout.ranks[1].replica_set, 0u);
}

TEST(KvBuilders, RepeatsHeadsOverMoreRanksThanHeads) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 8;
  EXPECT_EQ(kv_bytes_per_rank(options), 1024u);
  const KvLayout layout = layout_of(options);
  EXPECT_EQ(layout.ranks[5].groups[0].heads, (std::vector<HeadRange>{{2, 1}, {2, 1}}));
  EXPECT_EQ(layout.ranks[5].replica_set, 1u);
}

TEST(KvBuilders, GivesEveryRankTheWholeLatent) {
  KvCacheOptions options;
  options.model = find_model_shape("DeepSeek-R1");
  options.tensor_parallel = 8;
  options.page_count = 100;
  // 72 KiB per page and layer.
  EXPECT_EQ(kv_bytes_per_rank(options), 61u * 100 * 73728);
  const KvLayout layout = layout_of(options);
  ASSERT_EQ(layout.groups[0].tensors.size(), 1u);
  EXPECT_EQ(layout.groups[0].tensors[0], (TensorLayout{"latent", 1, 1152, PageOrder::kHnd}));
  EXPECT_EQ(layout.ranks[7].groups[0].heads, (std::vector<HeadRange>{{0, 1}}));
  EXPECT_EQ(layout.ranks[7].replica_set, 7u);
}

TEST(KvBuilders, PutsContextBehindThePagesOfRank0) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 2;
  options.context_slots = 3;
  options.context_slot_bytes = 100;
  EXPECT_EQ(context_bytes(options), 3u * 128);
  EXPECT_EQ(region_bytes(options, RankIndex{0}), 2048u + 3 * 128);
  EXPECT_EQ(region_bytes(options, RankIndex{1}), 2048u);
  const KvLayout layout = layout_of(options, 6);
  EXPECT_EQ(layout.context, (ContextLayout{3, 100, 128, RankIndex{0}, RegionId{6}, 2048}));
}

TEST(KvBuilders, AlignsContext) {
  KvCacheOptions options = small_options();
  options.model.element_bytes = 1;
  options.page_tokens = 1;
  options.page_count = 3;
  options.context_slots = 1;
  // Two layers of three pages of K and V, 16 bytes each.
  EXPECT_EQ(kv_bytes_per_rank(options), 192u);
  EXPECT_EQ(region_bytes(options, RankIndex{0}), 192u + 64);
  options.model.layers = 1;
  EXPECT_EQ(kv_bytes_per_rank(options), 96u);
  EXPECT_EQ(region_bytes(options, RankIndex{0}), 128u + 64);
  EXPECT_EQ(layout_of(options).context->base_offset_bytes, 128u);
}

TEST(KvBuilders, PutsContextIntoARegionOfItsOwn) {
  KvCacheOptions options = small_options();
  options.context_slots = 3;
  const std::vector<RankMemory> ranks = {{RegionId{6}, DeviceGroupId{0}}};
  // One hidden state of 16 elements.
  EXPECT_EQ(make_kv_layout(options, ranks, RegionId{9}).context,
            (ContextLayout{3, 32, 64, RankIndex{0}, RegionId{9}, 0}));
}

TEST(KvBuilders, RefusesWhatFitsNoCache) {
  EXPECT_EQ(refusal_after([](auto&) {}), "accepted");
  EXPECT_THAT(refusal_after([](auto& options) { options.tensor_parallel = 3; }),
              HasSubstr("4 KV heads of small cannot be sharded over 3 ranks"));
  EXPECT_THAT(refusal_after([](auto& options) { options.tensor_parallel = 0; }),
              HasSubstr("tensor_parallel is 0"));
  EXPECT_THAT(refusal_after([](auto& options) { options.page_count = 0; }),
              HasSubstr("page_count is 0"));
  EXPECT_THAT(refusal_after([](auto& options) { options.model.head_size = 0; }),
              HasSubstr("a head of small has 0 bytes"));
  EXPECT_THAT(refusal_after([](auto& options) { options.model.kv_heads = 0; }),
              HasSubstr("0 KV heads"));
  EXPECT_THAT(refusal_after([](auto& options) { options.model.layers = 5000; }),
              HasSubstr("small has 5000 layers"));
  EXPECT_THAT(refusal_after([](auto& options) { options.page_tokens = 0; }),
              HasSubstr("page_tokens is 0"));
  EXPECT_THAT(refusal_after([](auto& options) {
                options.context_slots = 1;
                options.model.hidden_size = 0;
              }),
              HasSubstr("context_slot_bytes is 0"));
  EXPECT_THAT(refusal_after([](auto& options) {
                options.page_count = UINT32_MAX;
                options.page_tokens = 65536;
                options.model.head_size = 65536;
              }),
              HasSubstr("exceeds 64 bits"));
  EXPECT_THROW(make_kv_layout(small_options(), {}), Error);
}

TEST(ModelShapes, AreFoundInAnyCase) {
  EXPECT_EQ(find_model_shape("llama-3-70b").layers, 80u);
  EXPECT_EQ(find_model_shape("Qwen3-Coder-480B").name, "Qwen3-Coder-480B-A35B");
  EXPECT_EQ(find_model_shape("qwen3-coder-480b-a35b").hidden_size, 6144u);
  EXPECT_EQ(find_model_shape("Qwen3-235B").kv_heads, 4u);
  EXPECT_EQ(find_model_shape("DEEPSEEK-R1").latent_size, 576u);
  EXPECT_EQ(find_model_shape("SmolLM2-135M").head_size, 64u);
}

TEST(ModelShapes, HaveTheirPublishedSizes) {
  const auto bytes_per_token = [](const char* name) {
    const ModelShape& shape = find_model_shape(name);
    return shape.layers * shape.bytes_per_token_and_layer();
  };
  EXPECT_EQ(bytes_per_token("Llama-3-70B"), 327680u);
  EXPECT_EQ(bytes_per_token("Qwen3-Coder-480B-A35B"), 253952u);
  EXPECT_EQ(bytes_per_token("Qwen3-235B-A22B"), 192512u);
  EXPECT_EQ(bytes_per_token("DeepSeek-R1"), 70272u);
  EXPECT_EQ(bytes_per_token("SmolLM2-135M"), 23040u);
}

TEST(ModelShapes, NamesTheKnownOnes) {
  try {
    find_model_shape("gpt-2");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("\"gpt-2\"; known are Llama-3-70B, Qwen3-Coder"));
  }
}

}  // namespace
}  // namespace kvrail

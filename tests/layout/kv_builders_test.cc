#include "kvrail/kv_builders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "layout/small_hybrid.h"
#include "layout/small_layout.h"

namespace kvrail {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;

TensorPlacement place(std::uint32_t layer, std::uint32_t tensor, std::uint32_t region,
                      std::uint64_t base, std::uint64_t page_stride) {
  return {LayerIndex{layer}, tensor, RegionId{region}, base, page_stride};
}

std::vector<std::string> group_names(const KvLayout& layout) {
  std::vector<std::string> names;
  for (const CacheGroup& group : layout.groups) names.push_back(group.name);
  return names;
}

std::vector<std::uint32_t> replica_sets(const KvLayout& layout) {
  std::vector<std::uint32_t> sets;
  for (const RankLayout& rank : layout.ranks) sets.push_back(rank.replica_set);
  return sets;
}

std::vector<std::uint32_t> layers_of(const RankGroup& held) {
  std::set<std::uint32_t> layers;
  for (const TensorPlacement& placement : held.placements) layers.insert(placement.layer.value());
  return {layers.begin(), layers.end()};
}

TEST(KvBuilders, FusesKAndVOfAPage) {
  const KvLayout layout = layout_of(small_options(), 4);
  EXPECT_EQ(kv_bytes(small_options(), RankIndex{0}), 4096u);
  EXPECT_THAT(layout.ranks[0].groups[0].placements,
              ElementsAre(place(0, 0, 4, 0, 256), place(0, 1, 4, 128, 256),
                          place(1, 0, 4, 2048, 256), place(1, 1, 4, 2048 + 128, 256)));
}

TEST(KvBuilders, PutsVFirst) {
  KvCacheOptions options = small_options();
  options.value_first = true;
  const KvLayout layout = layout_of(options);
  EXPECT_EQ(layout.groups[0].tensors[0].name, "k");
  EXPECT_EQ(layout.ranks[0].groups[0].placements[0], place(0, 0, 0, 128, 256));
  EXPECT_EQ(layout.ranks[0].groups[0].placements[1], place(0, 1, 0, 0, 256));
}

TEST(KvBuilders, SeparatesKAndV) {
  KvCacheOptions options = small_options();
  options.fused_kv = false;
  const KvLayout layout = layout_of(options);
  EXPECT_THAT(layout.ranks[0].groups[0].placements,
              ElementsAre(place(0, 0, 0, 0, 128), place(0, 1, 0, 1024, 128),
                          place(1, 0, 0, 2048, 128), place(1, 1, 0, 2048 + 1024, 128)));
}

TEST(KvBuilders, DividesHeadsAmongRanks) {
  KvCacheOptions options;
  options.model = find_model_shape("Llama-3-70B");
  options.tensor_parallel = 4;
  options.page_count = 100;
  // A page of a layer has 256 KiB over all heads.
  EXPECT_EQ(kv_bytes(options, RankIndex{3}), 80u * 100 * (262144 / 4));
  const KvLayout layout = layout_of(options);
  EXPECT_THAT(layout.ranks[3].groups[0].heads, ElementsAre(HeadRange{6, 2}, HeadRange{6, 2}));
  EXPECT_EQ(layout.ranks[3].device_group, DeviceGroupId{3});
  EXPECT_EQ(layout.ranks[3].tp_rank, 3u);
  EXPECT_THAT(replica_sets(layout), ElementsAre(0, 0, 0, 0));
}

TEST(KvBuilders, RepeatsHeadsOverMoreRanksThanHeads) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 8;
  EXPECT_EQ(kv_bytes(options, RankIndex{5}), 1024u);
  const KvLayout layout = layout_of(options);
  EXPECT_THAT(layout.ranks[5].groups[0].heads, ElementsAre(HeadRange{2, 1}, HeadRange{2, 1}));
  EXPECT_THAT(replica_sets(layout), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
}

TEST(KvBuilders, GivesEveryTensorParallelRankTheWholeLatent) {
  KvCacheOptions options;
  options.model = find_model_shape("DeepSeek-R1");
  options.tensor_parallel = 8;
  options.page_count = 100;
  // 72 KiB per page and layer.
  EXPECT_EQ(kv_bytes(options, RankIndex{7}), 61u * 100 * 73728);
  const KvLayout layout = layout_of(options);
  EXPECT_THAT(layout.groups[0].tensors,
              ElementsAre(TensorLayout{"latent", 1, 1152, PageOrder::kHnd}));
  EXPECT_THAT(layout.ranks[7].groups[0].heads, ElementsAre(HeadRange{0, 1}));
  EXPECT_THAT(replica_sets(layout), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(KvBuilders, GivesEveryDataParallelRankALatentOfItsOwn) {
  KvCacheOptions options;
  options.model = find_model_shape("DeepSeek-R1");
  options.data_parallel = 8;
  options.page_count = 100;
  const KvLayout layout = layout_of(options);
  ASSERT_EQ(layout.ranks.size(), 8u);
  for (std::uint32_t r = 0; r < 8; ++r) {
    EXPECT_EQ(layout.ranks[r].dp_rank, DpRank{r});
    EXPECT_EQ(layout.ranks[r].replica_set, 0u);
    EXPECT_EQ(layout.ranks[r].groups[0].placements[0].region, RegionId{r});
  }
}

TEST(KvBuilders, SplitsHybridsWithWindowsIntoGroups) {
  KvCacheOptions options;
  options.model = find_model_shape("gpt-oss-120b");
  options.tensor_parallel = 2;
  options.page_count = 100;
  const KvLayout layout = layout_of(options);
  EXPECT_THAT(group_names(layout), ElementsAre("full", "window"));
  EXPECT_EQ(layout.groups[0].window_tokens, 0u);
  EXPECT_EQ(layout.groups[1].window_tokens, 128u);
  EXPECT_EQ(layout.groups[0].layers[1], LayerIndex{3});
  EXPECT_EQ(layout.groups[1].layers[1], LayerIndex{2});
  EXPECT_EQ(kv_bytes(options, RankIndex{1}), 36u * 100 * 64 * 2 * 4 * 64 * 2);
}

TEST(KvBuilders, SharesOutTheHeadsOfStates) {
  KvCacheOptions options;
  options.model = find_model_shape("Qwen3-Next-80B");
  options.tensor_parallel = 8;
  options.page_count = 100;
  options.state_count = 10;
  const KvLayout layout = layout_of(options);
  EXPECT_THAT(group_names(layout), ElementsAre("full", "state"));
  EXPECT_EQ(layout.groups[1].kind, CacheKind::kState);
  EXPECT_EQ(layout.groups[1].page_tokens, 1u);
  EXPECT_EQ(layout.groups[1].page_count, 10u);
  // Two KV heads on four ranks each; 32 value heads and 16 key heads on one.
  EXPECT_THAT(layout.ranks[5].groups[0].heads, ElementsAre(HeadRange{1, 1}, HeadRange{1, 1}));
  EXPECT_THAT(layout.ranks[5].groups[1].heads,
              ElementsAre(HeadRange{20, 4}, HeadRange{10, 2}, HeadRange{10, 2}, HeadRange{20, 4}));
  EXPECT_THAT(replica_sets(layout), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(kv_bytes(options, RankIndex{0}),
            12u * 100 * 64 * 2 * 512 + 36u * 10 * (4 * 65536 + (2 + 2 + 4) * 768));
}

TEST(KvBuilders, MakesHybridsThatCanBePlanned) {
  KvCacheOptions source;
  source.model = find_model_shape("Qwen3-Next-80B");
  source.page_count = 16;
  source.state_count = 4;
  source.tensor_parallel = 2;
  KvCacheOptions target = source;
  target.tensor_parallel = 8;
  target.page_tokens = 16;
  target.fused_kv = false;
  const TransferPlan plan(layout_of(source), layout_of(target));
  // Each of the two KV heads goes to four ranks, each head of a state to one.
  EXPECT_EQ(plan.bytes({0, 100}),
            12u * 100 * (4 * 2048) + 36u * (32 * 65536 + (16 + 16 + 32) * 768));
}

// On 6 ranks, 3 heads are there twice and 2 heads three times: all of them twice.
TEST(KvBuilders, MakesAsManyReplicaSetsAsAreWhole) {
  KvCacheOptions options = small_hybrid();
  options.tensor_parallel = 6;
  options.model.kv_heads = 2;
  options.model.states = {{"recurrent", 3, 64}};
  EXPECT_THAT(replica_sets(layout_of(options)), ElementsAre(0, 1, 0, 1, 0, 1));
  options.model.states = {{"recurrent", 3, 64}, {"conv", 6, 6}};
  EXPECT_THAT(replica_sets(layout_of(options)), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(KvBuilders, PutsGroupAfterGroup) {
  const KvCacheOptions options = small_hybrid();
  const KvLayout layout = layout_of(options);
  EXPECT_EQ(layout.layer_count, 4u);
  EXPECT_THAT(group_names(layout), ElementsAre("full", "window", "state", "draft"));
  const auto& groups = layout.ranks[0].groups;
  EXPECT_THAT(groups[0].placements, ElementsAre(place(1, 0, 0, 0, 256), place(1, 1, 0, 128, 256)));
  EXPECT_EQ(groups[1].placements[0], place(0, 0, 0, 2048, 256));
  // Two states of 8 x 64 + 4 x 6 bytes.
  EXPECT_THAT(groups[2].placements,
              ElementsAre(place(2, 0, 0, 4096, 536), place(2, 1, 0, 4096 + 512, 536)));
  EXPECT_EQ(groups[3].placements[0], place(3, 0, 0, 4096 + 2 * 536, 256));
  EXPECT_EQ(kv_bytes(options, RankIndex{0}), 3u * 2048 + 2 * 536);
}

TEST(KvBuilders, SeparatesStates) {
  KvCacheOptions options = small_hybrid();
  options.fused_kv = false;
  EXPECT_THAT(layout_of(options).ranks[0].groups[2].placements,
              ElementsAre(place(2, 0, 0, 4096, 512), place(2, 1, 0, 4096 + 1024, 24)));
}

TEST(KvBuilders, PutsIndexerRowsBesideTheLatent) {
  KvCacheOptions options = small_options();
  options.model.latent_size = 16;
  options.model.indexer_bytes = 10;
  options.model.draft_layers = 1;
  options.tensor_parallel = 2;
  options.value_first = true;  // there is no V
  const KvLayout layout = layout_of(options);
  for (const CacheGroup& group : layout.groups) {
    EXPECT_THAT(group.tensors, ElementsAre(TensorLayout{"latent", 1, 32, PageOrder::kHnd},
                                           TensorLayout{"indexer", 1, 10, PageOrder::kHnd}));
  }
  EXPECT_THAT(layout.ranks[1].groups[0].heads, ElementsAre(HeadRange{0, 1}, HeadRange{0, 1}));
  EXPECT_EQ(layout.ranks[1].groups[0].placements[1], place(0, 1, 1, 128, 168));
  EXPECT_THAT(replica_sets(layout), ElementsAre(0, 1));
}

TEST(KvBuilders, CutsLayersIntoStages) {
  KvCacheOptions options = small_options();
  options.model.layers = 5;
  options.model.draft_layers = 1;
  options.pipeline_parallel = 3;
  options.tensor_parallel = 2;
  const KvLayout layout = layout_of(options);
  ASSERT_EQ(layout.ranks.size(), 6u);
  const std::vector<std::vector<std::uint32_t>> stages = {{0, 1}, {2, 3}, {4}};
  for (std::uint32_t r = 0; r < 6; ++r) {
    const RankLayout& rank = layout.ranks[r];
    EXPECT_EQ(rank.pp_rank, r / 2);
    EXPECT_EQ(rank.tp_rank, r % 2);
    EXPECT_EQ(layers_of(rank.groups[0]), stages[r / 2]);
    EXPECT_EQ(rank.groups[1].placements.empty(), r / 2 != 2);
    EXPECT_EQ(rank.groups[1].heads[0].count, r / 2 == 2 ? 2u : 0u);
    EXPECT_EQ(kv_bytes(options, RankIndex{r}), 2048u);
  }
  EXPECT_EQ(layers_of(layout.ranks[5].groups[1]), (std::vector<std::uint32_t>{5}));
  options.model.draft_layers = 0;
  EXPECT_EQ(kv_bytes(options, RankIndex{5}), 1024u);
}

TEST(KvBuilders, LeavesGroupsOfOtherStagesEmpty) {
  KvCacheOptions options = small_hybrid();
  options.pipeline_parallel = 3;
  const KvLayout layout = layout_of(options);
  for (std::uint32_t r = 0; r < 3; ++r) {
    const std::uint32_t held = std::vector<std::uint32_t>{1, 0, 2}[r];
    for (std::uint32_t g = 0; g < 3; ++g) {
      EXPECT_EQ(layout.ranks[r].groups[g].placements.empty(), g != held) << r << " " << g;
      EXPECT_EQ(layout.ranks[r].groups[g].heads[1] == HeadRange{}, g != held) << r << " " << g;
    }
  }
  EXPECT_EQ(layout.ranks[0].groups[1].placements[0].base_offset_bytes, 0u);
}

TEST(KvBuilders, DealsTokensButNotStates) {
  KvCacheOptions options = small_hybrid();
  options.context_parallel = 2;
  options.cp_interleave_tokens = 2;
  options.tensor_parallel = 2;
  const KvLayout layout = layout_of(options);
  ASSERT_EQ(layout.ranks.size(), 4u);
  for (std::size_t g = 0; g < 4; ++g) {
    EXPECT_EQ(layout.groups[g].cp_ranks, g == 2 ? 1u : 2u);
    EXPECT_EQ(layout.groups[g].cp_interleave_tokens, g == 2 ? 1u : 2u);
  }
  EXPECT_EQ(layout.ranks[2].cp_rank, 1u);
  EXPECT_EQ(layout.ranks[2].tp_rank, 0u);
  EXPECT_EQ(layout.ranks[3].groups[2].heads[0], (HeadRange{4, 4}));
  EXPECT_THAT(replica_sets(layout), ElementsAre(0, 0, 0, 0));
}

TEST(KvBuilders, NumbersRanksByAllCoordinates) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 8;
  options.context_parallel = 3;
  options.pipeline_parallel = 2;
  options.data_parallel = 2;
  EXPECT_EQ(rank_count(options), 96u);
  const RankLayout rank = layout_of(options).ranks[((1 * 2 + 1) * 3 + 2) * 8 + 5];
  EXPECT_EQ(rank.dp_rank, DpRank{1});
  EXPECT_EQ(rank.pp_rank, 1u);
  EXPECT_EQ(rank.cp_rank, 2u);
  EXPECT_EQ(rank.tp_rank, 5u);
  EXPECT_EQ(rank.replica_set, 1u);
  EXPECT_THAT(layers_of(rank.groups[0]), ElementsAre(1));
}

// Every combination is valid, and what it needs is what its placements reach.
TEST(KvBuilders, MakesValidLayoutsOfEveryKindOfParallelism) {
  for (const std::uint32_t tp : {1u, 2u, 4u, 8u}) {
    for (const std::uint32_t pp : {1u, 2u, 3u}) {
      for (const std::uint32_t cp : {1u, 3u}) {
        for (const bool fused : {false, true}) {
          KvCacheOptions options = small_hybrid();
          options.model.indexer_bytes = 5;
          options.tensor_parallel = tp;
          options.pipeline_parallel = pp;
          options.context_parallel = cp;
          options.data_parallel = 2;
          options.fused_kv = fused;
          options.value_first = cp == 3;
          options.order = pp == 2 ? PageOrder::kNhd : PageOrder::kHnd;
          const KvLayout layout = layout_of(options);
          for (std::uint32_t r = 0; r < layout.ranks.size(); ++r) {
            std::uint64_t end = 0;
            for (std::size_t g = 0; g < layout.groups.size(); ++g) {
              const CacheGroup& group = layout.groups[g];
              const RankGroup& held = layout.ranks[r].groups[g];
              for (const TensorPlacement& at : held.placements) {
                const std::uint64_t page = std::uint64_t{held.heads[at.tensor].count} *
                                           group.page_tokens * group.tensors[at.tensor].head_bytes;
                end = std::max(end, at.base_offset_bytes +
                                        (group.page_count - 1) * at.page_stride_bytes + page);
              }
            }
            EXPECT_EQ(end, kv_bytes(options, RankIndex{r})) << tp << pp << cp << fused << r;
          }
        }
      }
    }
  }
}

// A model without attention needs no sizes of it.
TEST(KvBuilders, MakesLayoutsOfStatesAlone) {
  KvCacheOptions options;
  options.model.name = "states";
  options.model.layers = 2;
  options.model.layer_kinds = {LayerKind::kState, LayerKind::kState};
  options.model.states = {{"ssm", 8, 64}};
  options.state_count = 4;
  options.tensor_parallel = 2;
  const KvLayout layout = layout_of(options);
  EXPECT_THAT(layout.groups, ElementsAre(AllOf(Field(&CacheGroup::name, "state"),
                                               Field(&CacheGroup::page_count, 4u))));
  EXPECT_EQ(kv_bytes(options, RankIndex{1}), 2u * 4 * 4 * 64);
}

}  // namespace
}  // namespace kvrail

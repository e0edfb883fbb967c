#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kvrail/error.h"
#include "kvrail/kv_builders.h"
#include "layout/small_layout.h"

namespace kvrail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(KvBuildersContext, IsBehindThePagesOfItsRank) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 2;
  options.context_slots = 3;
  options.context_slot_bytes = 100;
  EXPECT_EQ(context_bytes(options), 3u * 128);
  EXPECT_EQ(region_bytes(options, RankIndex{0}), 2048u + 3 * 128);
  EXPECT_EQ(region_bytes(options, RankIndex{1}), 2048u);
  EXPECT_THAT(layout_of(options, 6).contexts,
              ElementsAre(ContextLayout{3, 100, 128, RankIndex{0}, RegionId{6}, 2048}));
}

TEST(KvBuildersContext, IsOnTheLastStageOfEachDataParallelRank) {
  KvCacheOptions options = small_options();
  options.tensor_parallel = 2;
  options.pipeline_parallel = 2;
  options.data_parallel = 2;
  options.context_slots = 1;
  EXPECT_EQ(context_rank(options, DpRank{0}), RankIndex{2});
  EXPECT_EQ(context_rank(options, DpRank{1}), RankIndex{6});
  EXPECT_EQ(region_bytes(options, RankIndex{0}), 1024u);
  EXPECT_EQ(region_bytes(options, RankIndex{6}), 1024u + 64);
  EXPECT_THAT(layout_of(options).contexts,
              ElementsAre(ContextLayout{1, 32, 64, RankIndex{2}, RegionId{2}, 1024},
                          ContextLayout{1, 32, 64, RankIndex{6}, RegionId{6}, 1024}));
}

TEST(KvBuildersContext, IsAligned) {
  KvCacheOptions options = small_options();
  options.model.element_bytes = 1;
  options.page_tokens = 1;
  options.page_count = 3;
  options.context_slots = 1;
  // Two layers of three pages of K and V, 16 bytes each.
  EXPECT_EQ(kv_bytes(options, RankIndex{0}), 192u);
  EXPECT_EQ(region_bytes(options, RankIndex{0}), 192u + 64);
  options.model.layers = 1;
  EXPECT_EQ(kv_bytes(options, RankIndex{0}), 96u);
  EXPECT_EQ(region_bytes(options, RankIndex{0}), 128u + 64);
  EXPECT_EQ(layout_of(options).contexts[0].base_offset_bytes, 128u);
}

TEST(KvBuildersContext, GoesIntoRegionsOfItsOwn) {
  KvCacheOptions options = small_options();
  options.context_slots = 3;
  options.data_parallel = 2;
  const std::vector<RankMemory> ranks = {{RegionId{6}, DeviceGroupId{0}},
                                         {RegionId{7}, DeviceGroupId{0}}};
  // One hidden state of 16 elements.
  EXPECT_THAT(make_kv_layout(options, ranks, std::vector{RegionId{9}, RegionId{8}}).contexts,
              ElementsAre(ContextLayout{3, 32, 64, RankIndex{0}, RegionId{9}, 0},
                          ContextLayout{3, 32, 64, RankIndex{1}, RegionId{8}, 0}));
  try {
    make_kv_layout(options, ranks, std::vector{RegionId{9}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("context_regions has 1 regions, but must have one for each "
                                        "of 2 data-parallel ranks"));
  }
}

}  // namespace
}  // namespace kvrail

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kvrail/error.h"
#include "kvrail/transfer_plan.h"
#include "layout/small_layout.h"

namespace kvrail {
namespace {

using ::testing::HasSubstr;

// The text that refuses a plan from `source` to `target`.
std::string refusal(const KvLayout& source, const KvLayout& target) {
  try {
    const TransferPlan plan(source, target);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kLayoutMismatch) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return "";
}

std::string refusal_after(const std::function<void(KvCacheOptions&)>& change) {
  KvCacheOptions changed = small_options();
  change(changed);
  return refusal(layout_of(small_options()), layout_of(changed));
}

TEST(PlanMismatch, NamesTheFirstDifference) {
  EXPECT_THAT(refusal_after([](auto& options) { options.model.name = "other"; }),
              HasSubstr("model is \"small\" at the source, \"other\" at the target"));
  EXPECT_THAT(refusal_after([](auto& options) { options.model.layers = 3; }),
              HasSubstr("layer_count is 2 at the source, 3 at the target"));
  EXPECT_THAT(refusal_after([](auto& options) { options.model.latent_size = 16; }),
              HasSubstr("group 0 number of tensors is 2 at the source, 1 at the target"));
  EXPECT_THAT(refusal_after([](auto& options) { options.model.kv_heads = 2; }),
              HasSubstr("group 0 tensor 0 heads is 4 at the source, 2 at the target"));
  EXPECT_THAT(refusal_after([](auto& options) { options.model.element_bytes = 1; }),
              HasSubstr("group 0 tensor 0 head_bytes is 8 at the source, 4 at the target"));
  EXPECT_THAT(refusal_after([](auto& options) {
                options.model.layer_kinds.assign(2, LayerKind::kWindow);
                options.model.window_tokens = 8;
              }),
              HasSubstr("group 0 name is \"full\" at the source, \"window\" at the target"));
  EXPECT_THAT(refusal_after([](auto& options) { options.context_slots = 1; }),
              HasSubstr("context is absent at the source, present at the target"));
}

TEST(PlanMismatch, ComparesContextSlots) {
  KvCacheOptions source = small_options();
  source.context_slots = 1;
  KvCacheOptions target = source;
  target.context_slots = 3;
  EXPECT_NO_THROW(TransferPlan(layout_of(source), layout_of(target)));
  target.context_slot_bytes = 64;
  EXPECT_THAT(refusal(layout_of(source), layout_of(target)),
              HasSubstr("context slot_bytes is 32 at the source, 64 at the target"));
}

TEST(PlanMismatch, ComparesNamesAndLayersOfGroups) {
  const KvLayout source = layout_of(small_options());
  KvLayout target = source;
  target.groups[0].name = std::string("window");
  EXPECT_THAT(refusal(source, target), HasSubstr("group 0 name is \"full\" at the source"));
  target = source;
  target.groups[0].tensors[1].name = std::string("w");
  EXPECT_THAT(refusal(source, target), HasSubstr("group 0 tensor 1 name is \"v\" at the source"));

  // A second group takes layer 1 at both sides, then layer 0 at one.
  const auto split = [](KvLayout layout, std::uint32_t layer) {
    CacheGroup& first = layout.groups[0];
    CacheGroup second = first;
    first.layers = {LayerIndex{1 - layer}};
    second.layers = {LayerIndex{layer}};
    layout.groups.push_back(second);
    RankGroup held = layout.ranks[0].groups[0];
    const auto other = [](LayerIndex kept) {
      return [kept](const TensorPlacement& placement) { return placement.layer != kept; };
    };
    std::erase_if(layout.ranks[0].groups[0].placements, other(LayerIndex{1 - layer}));
    std::erase_if(held.placements, other(LayerIndex{layer}));
    layout.ranks[0].groups.push_back(held);
    return layout;
  };
  EXPECT_THAT(refusal(source, split(source, 1)),
              HasSubstr("number of groups is 1 at the source, 2 at the target"));
  EXPECT_NO_THROW(TransferPlan(split(source, 1), split(source, 1)));
  EXPECT_THAT(refusal(split(source, 1), split(source, 0)),
              HasSubstr("group 0 holds layer 0 only at the source"));
}

TEST(PlanMismatch, ComparesKindsAndWindowsOfGroups) {
  const KvLayout source = layout_of(small_options());
  KvLayout target = source;
  target.groups[0].window_tokens = 8;
  EXPECT_THAT(refusal(source, target),
              HasSubstr("group 0 window_tokens is 0 at the source, 8 at the target"));
  target = source;
  target.groups[0].kind = CacheKind::kState;
  target.groups[0].page_tokens = 1;
  EXPECT_THAT(
      refusal(source, target),
      HasSubstr("group 0 kind is tokens at the source, a state per sequence at the target"));
}

TEST(PlanMismatch, BoundsThePairsOfRanks) {
  // 600 ranks with a head each, and 600 ranks with all of them.
  KvLayout source;
  {
    KvCacheOptions options = small_options();
    options.model.kv_heads = 600;
    options.tensor_parallel = 600;
    source = layout_of(options);
  }
  KvCacheOptions options = small_options();
  options.model.kv_heads = 600;
  KvLayout target = layout_of(options);
  const RankLayout whole = target.ranks[0];
  for (std::uint32_t r = 1; r < 600; ++r) {
    RankLayout& rank = target.ranks.emplace_back(whole);
    rank.replica_set = r;
    for (TensorPlacement& placement : rank.groups[0].placements) placement.region = RegionId{r};
  }
  EXPECT_THAT(refusal(source, target), HasSubstr("more than 65536 pairs of ranks"));
}

TEST(PlanMismatch, QuotesBothLayouts) {
  const std::string text = refusal_after([](auto& options) {
    options.page_tokens = 8;
    options.model.element_bytes = 1;
  });
  EXPECT_THAT(text, HasSubstr("source:\nmodel \"small\": 2 layers\ngroup 0 \"full\": pages of 4"));
  EXPECT_THAT(text, HasSubstr("target:\nmodel \"small\": 2 layers\ngroup 0 \"full\": pages of 8"));
}

TEST(PlanMismatch, CutsLongQuotesAtALine) {
  KvCacheOptions options = small_options();
  options.model.kv_heads = 512;
  options.tensor_parallel = 512;
  const KvLayout source = layout_of(options);
  options.model.element_bytes = 1;
  const std::string text = refusal(source, layout_of(options));
  EXPECT_LT(text.size(), 10000u);
  EXPECT_THAT(text, HasSubstr("\n... and "));
  EXPECT_THAT(text, HasSubstr("lines more\ntarget:\n"));
}

TEST(PlanMismatch, ChecksBothLayouts) {
  const KvLayout good = layout_of(small_options());
  KvLayout bad = good;
  bad.groups[0].page_count = 0;
  EXPECT_THROW(TransferPlan(good, bad), Error);
  EXPECT_THROW(TransferPlan(bad, good), Error);
}

TEST(PlanMismatch, LetsShardingPagingAndPlacementDiffer) {
  KvCacheOptions source = small_options();
  source.tensor_parallel = 2;
  KvCacheOptions target = source;
  target.tensor_parallel = 4;
  target.pipeline_parallel = 2;
  target.order = PageOrder::kNhd;
  target.page_tokens = 8;
  target.fused_kv = false;
  target.page_count = 3;
  EXPECT_NO_THROW(TransferPlan(layout_of(source, 0), layout_of(target, 5)));
}

}  // namespace
}  // namespace kvrail

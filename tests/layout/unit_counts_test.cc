#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "kvrail/kv_builders.h"
#include "kvrail/transfer_plan.h"

// How many units, and so writes before merging, a page takes: the table in docs/sharding.md.

namespace kvrail {
namespace {

constexpr std::uint32_t kPageTokens = 64;

KvLayout layout_of(PageOrder order, std::uint32_t ranks, std::uint32_t page_tokens) {
  KvCacheOptions options;
  options.model.name = "one layer";
  options.model.layers = 1;
  options.model.kv_heads = 8;
  options.model.head_size = 128;
  options.tensor_parallel = ranks;
  options.page_tokens = page_tokens;
  options.page_count = 16;
  options.order = order;
  std::vector<RankMemory> memory;
  for (std::uint32_t r = 0; r < ranks; ++r) memory.push_back({RegionId{r}, DeviceGroupId{0}});
  return make_kv_layout(options, memory);
}

struct PageCost {
  std::string from_to;
  PageOrder source_order = PageOrder::kHnd;
  std::uint32_t source_ranks = 1;
  PageOrder target_order = PageOrder::kHnd;
  std::uint32_t target_ranks = 1;
  std::uint32_t target_page_tokens = kPageTokens;
  TokenRange sent = {0, kPageTokens};
  std::uint64_t units = 1;  // of all ranks, K and V
};

TEST(UnitsPerPage, AreTheFewestThatLieTogetherOnBothSides) {
  constexpr PageOrder kHnd = PageOrder::kHnd;
  constexpr PageOrder kNhd = PageOrder::kNhd;
  const std::vector<PageCost> costs = {
      {"HND to HND, TP 1 to 1", kHnd, 1, kHnd, 1, 64, {0, 64}, 2},
      {"HND to HND, TP 8 to 8", kHnd, 8, kHnd, 8, 64, {0, 64}, 8 * 2},
      {"HND to HND, TP 8 to 4", kHnd, 8, kHnd, 4, 64, {0, 64}, 8 * 2},
      {"HND to HND, TP 2 to 8", kHnd, 2, kHnd, 8, 64, {0, 64}, 8 * 2},
      {"HND to HND, TP 1 to 1, half a page", kHnd, 1, kHnd, 1, 64, {0, 32}, 8 * 2},
      {"HND to HND, TP 1 to 1, pages of 64 to 16", kHnd, 1, kHnd, 1, 16, {0, 64}, 4 * 8 * 2},
      {"NHD to NHD, TP 1 to 1", kNhd, 1, kNhd, 1, 64, {0, 64}, 2},
      {"NHD to NHD, TP 1 to 1, pages of 64 to 16", kNhd, 1, kNhd, 1, 16, {0, 64}, 4 * 2},
      {"NHD to NHD, TP 8 to 4", kNhd, 8, kNhd, 4, 64, {0, 64}, 8 * 64 * 2},
      {"NHD to HND, TP 1 to 1", kNhd, 1, kHnd, 1, 64, {0, 64}, 64 * 8 * 2},
      {"HND to NHD, TP 4 to 2", kHnd, 4, kNhd, 2, 64, {0, 64}, 64 * 8 * 2},
      {"HND to NHD, TP 8 to 8", kHnd, 8, kNhd, 8, 64, {0, 64}, 8 * 2},
  };
  for (const PageCost& cost : costs) {
    const TransferPlan plan(
        layout_of(cost.source_order, cost.source_ranks, kPageTokens),
        layout_of(cost.target_order, cost.target_ranks, cost.target_page_tokens));
    std::uint64_t units = 0;
    for (const std::uint64_t of_rank : plan.units_by_target_rank(DpRank{0}, cost.sent)) {
      units += of_rank;
    }
    EXPECT_EQ(units, cost.units) << cost.from_to;
    const std::uint64_t bytes = plan.bytes(cost.sent);
    std::cout << cost.from_to << ": " << units << " units of " << bytes / units << " bytes\n";
  }
}

}  // namespace
}  // namespace kvrail

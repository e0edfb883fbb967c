#include "layout/scramble.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "layout/random.h"

namespace kvrail {
namespace {

// Ranks that are as each other in different data-parallel ranks get the same place in these, which
// then come in any order.
void scramble_ranks(KvLayout& layout, Random& random) {
  std::map<DpRank, std::vector<RankLayout>> by_dp;
  for (RankLayout& rank : layout.ranks) by_dp[rank.dp_rank].push_back(std::move(rank));
  const std::uint64_t order = random();
  std::vector<std::vector<RankLayout>> left;
  for (auto& [dp, ranks] : by_dp) {
    Random same(order);
    std::shuffle(ranks.begin(), ranks.end(), same);
    std::reverse(ranks.begin(), ranks.end());
    left.push_back(std::move(ranks));
  }
  layout.ranks.clear();
  while (!left.empty()) {
    const auto next = left.begin() + pick(random, 0, static_cast<std::uint32_t>(left.size()) - 1);
    layout.ranks.push_back(std::move(next->back()));
    next->pop_back();
    if (next->empty()) left.erase(next);
  }
}

void scramble_strides(const CacheGroup& group, RankGroup& held, Random& random) {
  for (TensorPlacement& placement : held.placements) {
    const TensorLayout& tensor = group.tensors[placement.tensor];
    const std::uint64_t row = tensor.head_bytes;
    const std::uint64_t heads = held.heads[placement.tensor].count;
    const bool hnd = tensor.order == PageOrder::kHnd;
    const auto scramble = [&](std::uint64_t& stride, std::uint64_t dense) {
      if ((stride == 0 || stride == dense) && coin(random)) stride = stride == 0 ? dense : 0;
    };
    scramble(placement.head_stride_bytes, hnd ? group.page_tokens * row : row);
    scramble(placement.token_stride_bytes, hnd ? row : heads * row);
  }
}

// Moves some placements of one rank and group into regions of their own: by layer, by tensor, or
// both.
void scramble_regions(RankGroup& held, std::uint32_t& regions, Random& random) {
  const bool by_layer = coin(random);
  const bool by_tensor = coin(random);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<TensorPlacement*>> moved;
  for (TensorPlacement& placement : held.placements) {
    moved[{by_layer ? placement.layer.value() : 0, by_tensor ? placement.tensor : 0}].push_back(
        &placement);
  }
  for (const auto& [key, placements] : moved) {
    if (seldom(random, 3)) continue;
    const auto first = std::min_element(placements.begin(), placements.end(), [](auto* a, auto* b) {
      return a->base_offset_bytes < b->base_offset_bytes;
    });
    const std::uint64_t old_base = (*first)->base_offset_bytes;
    const std::uint64_t new_base = pick(random, 0, 9);
    for (TensorPlacement* placement : placements) {
      placement->region = RegionId{regions};
      placement->base_offset_bytes += new_base - old_base;
    }
    ++regions;
  }
}

}  // namespace

void scramble(KvLayout& layout, std::uint64_t seed) {
  Random random(seed);
  for (CacheGroup& group : layout.groups) {
    std::shuffle(group.layers.begin(), group.layers.end(), random);
  }
  std::uint32_t regions = 0;
  for (const RankLayout& rank : layout.ranks) {
    for (const RankGroup& held : rank.groups) {
      for (const TensorPlacement& placement : held.placements) {
        regions = std::max(regions, placement.region.value() + 1);
      }
    }
  }
  for (RankLayout& rank : layout.ranks) {
    for (std::size_t g = 0; g < rank.groups.size(); ++g) {
      scramble_strides(layout.groups[g], rank.groups[g], random);
      if (seldom(random, 3)) scramble_regions(rank.groups[g], regions, random);
      std::shuffle(rank.groups[g].placements.begin(), rank.groups[g].placements.end(), random);
    }
  }
  scramble_ranks(layout, random);
}

}  // namespace kvrail

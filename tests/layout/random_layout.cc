#include "layout/random_layout.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace kvrail {
namespace {

PageOrder random_order(Random& random) { return coin(random) ? PageOrder::kHnd : PageOrder::kNhd; }

// Cuts [0, heads) over the ranks of a stage, or gives every rank all of it.
std::vector<HeadRange> random_head_ranges(std::uint32_t heads, std::uint32_t ranks,
                                          Random& random) {
  std::vector<HeadRange> ranges;
  if (coin(random)) {
    return std::vector<HeadRange>(ranks, {0, heads});
  }
  std::vector<std::uint32_t> cuts = {0, heads};
  for (std::uint32_t i = 1; i < ranks; ++i) {
    cuts.push_back(pick(random, 0, heads));
  }
  std::sort(cuts.begin(), cuts.end());
  for (std::uint32_t i = 0; i < ranks; ++i) {
    ranges.push_back({cuts[i], cuts[i + 1] - cuts[i]});
  }
  return ranges;
}

std::uint64_t page_bytes(const CacheGroup& group, const RankGroup& held, std::uint32_t tensor) {
  return std::uint64_t{group.page_tokens} * held.heads[tensor].count *
         group.tensors[tensor].head_bytes;
}

// Hands out memory from regions that it makes up on the way.
class Pool {
 public:
  explicit Pool(Random& random) : random_(random) {}

  TensorPlacement next(LayerIndex layer, std::uint32_t tensor, std::uint64_t stride) {
    if (ends_.empty() || pick(random_, 0, 3) == 0) {
      ends_.push_back(0);
    }
    ends_.back() += pick(random_, 0, 5);
    return {layer, tensor, RegionId{static_cast<std::uint32_t>(ends_.size() - 1)}, ends_.back(),
            stride};
  }
  void take(std::uint64_t bytes) { ends_.back() += bytes; }

 private:
  Random& random_;
  std::vector<std::uint64_t> ends_;
};

// One rank's placements of one group; `layers` are those that it holds.
void place(const CacheGroup& group, const std::vector<LayerIndex>& layers, bool fused, Pool& pool,
           RankGroup& held, Random& random) {
  std::vector<std::uint32_t> tensors;
  std::uint64_t all_bytes = 0;
  for (std::uint32_t t = 0; t < group.tensors.size(); ++t) {
    if (held.heads[t].count > 0) {
      tensors.push_back(t);
      all_bytes += page_bytes(group, held, t);
    }
  }
  std::shuffle(tensors.begin(), tensors.end(), random);
  const std::uint64_t gap = coin(random) ? 0 : pick(random, 1, 9);
  for (const LayerIndex layer : layers) {
    if (fused && !tensors.empty()) {
      TensorPlacement placement = pool.next(layer, 0, all_bytes + gap);
      pool.take(group.page_count * (all_bytes + gap));
      for (const std::uint32_t t : tensors) {
        placement.tensor = t;
        held.placements.push_back(placement);
        placement.base_offset_bytes += page_bytes(group, held, t);
      }
      continue;
    }
    for (const std::uint32_t t : tensors) {
      const std::uint64_t stride = page_bytes(group, held, t) + gap;
      held.placements.push_back(pool.next(layer, t, stride));
      pool.take(group.page_count * stride);
    }
  }
  std::shuffle(held.placements.begin(), held.placements.end(), random);
}

}  // namespace

KvLayout random_sharding(Random& random) {
  KvLayout layout;
  layout.model = "random";
  layout.layer_count = pick(random, 1, 5);
  const std::uint32_t group_count = pick(random, 1, std::min(layout.layer_count, 3u));
  layout.groups.resize(group_count);
  for (std::uint32_t layer = 0; layer < layout.layer_count; ++layer) {
    const std::uint32_t group = layer < group_count ? layer : pick(random, 0, group_count - 1);
    layout.groups[group].layers.push_back(LayerIndex{layer});
  }
  const std::uint32_t stages = pick(random, 1, std::min(layout.layer_count, 2u));
  const std::uint32_t stage_ranks = pick(random, 1, 3);
  layout.ranks.resize(std::size_t{stages} * stage_ranks);
  for (std::uint32_t r = 0; r < layout.ranks.size(); ++r) {
    layout.ranks[r].tp_rank = r % stage_ranks;
    layout.ranks[r].pp_rank = r / stage_ranks;
    layout.ranks[r].groups.resize(group_count);
  }
  for (std::uint32_t g = 0; g < group_count; ++g) {
    CacheGroup& group = layout.groups[g];
    group.name = "group " + std::to_string(g);
    group.page_tokens = pick(random, 1, 6);
    group.tensors.resize(pick(random, 1, 3));
    for (std::uint32_t t = 0; t < group.tensors.size(); ++t) {
      group.tensors[t] = {"tensor " + std::to_string(t), pick(random, 1, 5), pick(random, 1, 4),
                          random_order(random)};
      const auto ranges = random_head_ranges(group.tensors[t].heads, stage_ranks, random);
      for (RankLayout& rank : layout.ranks) {
        rank.groups[g].heads.push_back(ranges[rank.tp_rank]);
      }
    }
  }
  return layout;
}

KvLayout placed_at_random(KvLayout layout, std::uint32_t max_tokens, Random& random) {
  for (CacheGroup& group : layout.groups) {
    group.page_count = max_tokens / group.page_tokens + pick(random, 1, 3);
  }
  const std::uint32_t stages = layout.ranks.back().pp_rank + 1;
  const bool fused = coin(random);
  Pool pool(random);
  for (RankLayout& rank : layout.ranks) {
    rank.device_group = DeviceGroupId{static_cast<std::uint16_t>(pick(random, 0, 3))};
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      std::vector<LayerIndex> layers;
      for (const LayerIndex layer : layout.groups[g].layers) {
        if (layer.value() % stages == rank.pp_rank) {
          layers.push_back(layer);
        }
      }
      place(layout.groups[g], layers, fused, pool, rank.groups[g], random);
    }
  }
  return layout;
}

std::vector<std::uint64_t> region_sizes(const KvLayout& layout) {
  std::vector<std::uint64_t> sizes;
  for (const RankLayout& rank : layout.ranks) {
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      for (const TensorPlacement& placement : rank.groups[g].placements) {
        const std::uint64_t end = placement.base_offset_bytes +
                                  layout.groups[g].page_count * placement.page_stride_bytes + 16;
        sizes.resize(std::max<std::size_t>(sizes.size(), placement.region.value() + 1));
        sizes[placement.region.value()] = std::max(sizes[placement.region.value()], end);
      }
    }
  }
  return sizes;
}

RequestPages random_pages(const KvLayout& layout, std::uint32_t tokens, Random& random) {
  RequestPages pages;
  for (const CacheGroup& group : layout.groups) {
    std::vector<PageIndex> all;
    for (std::uint32_t page = 0; page < group.page_count; ++page) {
      all.push_back(PageIndex{page});
    }
    if (coin(random)) {
      std::shuffle(all.begin(), all.end(), random);
    }
    all.resize((tokens + group.page_tokens - 1) / group.page_tokens);
    pages.by_group.push_back(std::move(all));
  }
  return pages;
}

}  // namespace kvrail

#include "layout/rank_checks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "layout/checked_math.h"
#include "layout/page_overlap.h"
#include "layout/refuse.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kNoGroup = UINT32_MAX;

std::vector<std::uint32_t> groups_by_layer(const KvLayout& layout) {
  std::vector<std::uint32_t> groups(layout.layer_count, kNoGroup);
  for (std::uint32_t g = 0; g < layout.groups.size(); ++g) {
    for (const LayerIndex layer : layout.groups[g].layers) {
      groups[layer.value()] = g;
    }
  }
  return groups;
}

// "rank 3, group 0, layer 7, tensor 1"
std::string place(std::size_t rank, std::size_t group, const TensorPlacement& placement) {
  return fmt::format("rank {}, group {}, layer {}, tensor {}", rank, group, placement.layer.value(),
                     placement.tensor);
}

// The placement's pages; nullopt if they exceed 64 bits or overlap each other.
std::optional<PageSeries> pages_of(const CacheGroup& group, const RankGroup& held,
                                   const TensorPlacement& placement) {
  PageSeries pages;
  pages.region = placement.region;
  pages.base_bytes = placement.base_offset_bytes;
  pages.stride_bytes = placement.page_stride_bytes;
  pages.page_bytes = std::uint64_t{group.page_tokens} * held.heads[placement.tensor].count *
                     group.tensors[placement.tensor].head_bytes;
  const auto span = checked_product(group.page_count - 1, pages.stride_bytes);
  const auto last = span ? checked_add(pages.base_bytes, *span) : std::nullopt;
  const auto end = last ? checked_add(*last, pages.page_bytes) : std::nullopt;
  if (!end || pages.stride_bytes < pages.page_bytes) {
    return std::nullopt;
  }
  pages.end_bytes = *end;
  return pages;
}

void check_heads(const CacheGroup& group, const RankGroup& held, std::size_t r, std::size_t g) {
  if (held.heads.size() != group.tensors.size()) {
    refuse("ranks[{}].groups[{}].heads has {} ranges, but the group has {} tensors", r, g,
           held.heads.size(), group.tensors.size());
  }
  for (std::size_t t = 0; t < held.heads.size(); ++t) {
    const HeadRange& heads = held.heads[t];
    if (std::uint64_t{heads.first} + heads.count > group.tensors[t].heads) {
      refuse("ranks[{}].groups[{}].heads[{}] is {} heads from {} on, but the tensor has {}", r, g,
             t, heads.count, heads.first, group.tensors[t].heads);
    }
  }
}

// One rank's placements of one group, each by itself and against each other.
class GroupPlacements {
 public:
  GroupPlacements(const CacheGroup& group, const RankGroup& held, std::size_t r, std::size_t g)
      : group_(group), held_(held), r_(r), g_(g) {}

  void check(const std::vector<std::uint32_t>& group_of_layer) {
    for (const TensorPlacement& placement : held_.placements) {
      check_one(placement, group_of_layer);
    }
    check_layers();
  }

 private:
  void check_one(const TensorPlacement& placement,
                 const std::vector<std::uint32_t>& group_of_layer) {
    const std::uint32_t layer = placement.layer.value();
    if (layer >= group_of_layer.size() || group_of_layer[layer] != g_) {
      refuse("ranks[{}].groups[{}].placements names layer {}, which is not in the group", r_, g_,
             layer);
    }
    if (placement.tensor >= group_.tensors.size()) {
      refuse("ranks[{}].groups[{}].placements names tensor {}, but the group has {}", r_, g_,
             placement.tensor, group_.tensors.size());
    }
    if (held_.heads[placement.tensor].count == 0) {
      refuse("{}: placed, but the rank holds no heads of it", place(r_, g_, placement));
    }
    if (!pages_of(group_, held_, placement)) {
      refuse(
          "{}: {} pages of {} tokens x {} heads x {} bytes, stride {}, from {} on overlap or "
          "exceed 64 bits",
          place(r_, g_, placement), group_.page_count, group_.page_tokens,
          held_.heads[placement.tensor].count, group_.tensors[placement.tensor].head_bytes,
          placement.page_stride_bytes, placement.base_offset_bytes);
    }
    std::uint64_t& stride = strides_[placement.tensor];
    if (stride != 0 && stride != placement.page_stride_bytes) {
      refuse("{}: page_stride_bytes is {}, but {} for another layer; they must be equal",
             place(r_, g_, placement), placement.page_stride_bytes, stride);
    }
    stride = placement.page_stride_bytes;
    keys_.push_back(layer * kMaxTensors + placement.tensor);
  }

  void check_layers() {
    std::sort(keys_.begin(), keys_.end());
    const auto twice = std::adjacent_find(keys_.begin(), keys_.end());
    if (twice != keys_.end()) {
      refuse("rank {}, group {}, layer {}, tensor {} is placed twice", r_, g_, *twice / kMaxTensors,
             *twice % kMaxTensors);
    }
    const auto tensors_held = std::count_if(held_.heads.begin(), held_.heads.end(),
                                            [](const HeadRange& heads) { return heads.count > 0; });
    for (auto first = keys_.begin(); first != keys_.end();) {
      const std::uint32_t layer = *first / kMaxTensors;
      const auto end = std::find_if(first, keys_.end(),
                                    [&](std::uint32_t key) { return key / kMaxTensors != layer; });
      if (end - first != tensors_held) {
        refuse("rank {} holds heads of {} tensors of group {}, but places {} of them for layer {}",
               r_, tensors_held, g_, end - first, layer);
      }
      first = end;
    }
  }

  const CacheGroup& group_;
  const RankGroup& held_;
  std::size_t r_;
  std::size_t g_;
  std::array<std::uint64_t, kMaxTensors> strides_{};
  std::vector<std::uint32_t> keys_;
};

// Every replica set holds every head of every tensor of every layer.
void check_replica_sets(const KvLayout& layout, const std::vector<std::uint32_t>& group_of_layer) {
  using Held = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                          std::uint32_t>;  // set, layer, tensor, first head, end of the heads
  std::vector<Held> all;
  std::vector<std::uint32_t> sets;
  for (const RankLayout& rank : layout.ranks) {
    sets.push_back(rank.replica_set);
    for (const RankGroup& held : rank.groups) {
      for (const TensorPlacement& placement : held.placements) {
        const HeadRange& heads = held.heads[placement.tensor];
        all.emplace_back(rank.replica_set, placement.layer.value(), placement.tensor, heads.first,
                         heads.first + heads.count);
      }
    }
  }
  std::sort(all.begin(), all.end());
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());

  // Ends at the first gap, so that it costs no more than the placements that there are.
  auto next = all.begin();
  for (const std::uint32_t set : sets) {
    for (std::uint32_t layer = 0; layer < layout.layer_count; ++layer) {
      const CacheGroup& group = layout.groups[group_of_layer[layer]];
      for (std::uint32_t tensor = 0; tensor < group.tensors.size(); ++tensor) {
        std::uint32_t covered = 0;
        for (; next != all.end(); ++next) {
          const auto& [next_set, next_layer, next_tensor, first, end] = *next;
          if (std::tie(next_set, next_layer, next_tensor) != std::tie(set, layer, tensor)) {
            break;
          }
          if (first <= covered) {
            covered = std::max(covered, end);
          }
        }
        if (covered < group.tensors[tensor].heads) {
          refuse("replica set {} does not hold head {} of layer {}, tensor {}", set, covered, layer,
                 tensor);
        }
      }
    }
  }
}

void check_overlaps(const KvLayout& layout, std::size_t g) {
  const CacheGroup& group = layout.groups[g];
  std::vector<PageSeries> series;
  std::vector<std::pair<std::size_t, const TensorPlacement*>> origins;
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    const RankGroup& held = layout.ranks[r].groups[g];
    for (const TensorPlacement& placement : held.placements) {
      series.push_back(*pages_of(group, held, placement));
      origins.emplace_back(r, &placement);
    }
  }
  if (const auto overlap = find_overlap(series, group.page_count)) {
    const auto& [first_rank, first] = origins[overlap->first];
    const auto& [second_rank, second] = origins[overlap->second];
    refuse("pages of ({}) and of ({}) overlap in one region", place(first_rank, g, *first),
           place(second_rank, g, *second));
  }
}

}  // namespace

void check_ranks(const KvLayout& layout) {
  const auto group_of_layer = groups_by_layer(layout);
  std::size_t placements = 0;
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    const RankLayout& rank = layout.ranks[r];
    if (rank.groups.size() != layout.groups.size()) {
      refuse("ranks[{}].groups has {} entries, but the layout has {} groups", r, rank.groups.size(),
             layout.groups.size());
    }
    const std::size_t before = placements;
    for (const RankGroup& held : rank.groups) {
      placements += held.placements.size();
    }
    if (placements == before) {
      refuse("ranks[{}] has no placement", r);
    }
    if (placements > kMaxPlacements) {
      refuse("the ranks have more than {} placements", kMaxPlacements);
    }
  }
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      const RankGroup& held = layout.ranks[r].groups[g];
      check_heads(layout.groups[g], held, r, g);
      GroupPlacements(layout.groups[g], held, r, g).check(group_of_layer);
    }
  }
  check_replica_sets(layout, group_of_layer);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    check_overlaps(layout, g);
  }
}

void check_no_pages_in(const KvLayout& layout, RegionId region, std::uint64_t first,
                       std::uint64_t end) {
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      const RankGroup& held = layout.ranks[r].groups[g];
      for (const TensorPlacement& placement : held.placements) {
        const PageSeries pages = *pages_of(layout.groups[g], held, placement);
        if (pages.region == region && pages.base_bytes < end && first < pages.end_bytes) {
          refuse("context slots overlap the pages of {}", place(r, g, placement));
        }
      }
    }
  }
}

}  // namespace kvrail

#include "layout/rank_checks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "layout/groups_by_layer.h"
#include "layout/page_overlap.h"
#include "layout/refuse.h"
#include "layout/replica_checks.h"
#include "layout/row_strides.h"

namespace kvrail {
namespace {

// "rank 3, group 0, layer 7, tensor 1"
std::string place(std::size_t rank, std::size_t group, const TensorPlacement& placement) {
  return fmt::format("rank {}, group {}, layer {}, tensor {}", rank, group, placement.layer.value(),
                     placement.tensor);
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

  void check(const std::vector<CacheGroupIndex>& group_of_layer) {
    for (const TensorPlacement& placement : held_.placements) {
      check_one(placement, group_of_layer);
    }
    check_layers();
  }

 private:
  void check_one(const TensorPlacement& placement,
                 const std::vector<CacheGroupIndex>& group_of_layer) {
    const std::uint32_t layer = placement.layer.value();
    if (layer >= group_of_layer.size() || group_of_layer[layer].value() != g_) {
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
    const HeadRange& heads = held_.heads[placement.tensor];
    const RowStrides rows = row_strides(group_, heads, placement);
    if (!rows_of(group_, heads, placement)) {
      refuse(
          "{}: {} pages of {} tokens x {} heads x {} bytes, strides {} of pages, {} of tokens, {} "
          "of heads, from {} on overlap or exceed 64 bits",
          place(r_, g_, placement), group_.page_count, group_.page_tokens, heads.count,
          group_.tensors[placement.tensor].head_bytes, placement.page_stride_bytes,
          rows.token_bytes, rows.head_bytes, placement.base_offset_bytes);
    }
    const Strides strides{placement.page_stride_bytes, rows};
    std::optional<Strides>& known = strides_[placement.tensor];
    if (known && *known != strides) {
      refuse(
          "{}: strides are {} of pages, {} of tokens, {} of heads, but {}, {}, {} for another "
          "layer; they must be equal",
          place(r_, g_, placement), strides.page_bytes, rows.token_bytes, rows.head_bytes,
          known->page_bytes, known->rows.token_bytes, known->rows.head_bytes);
    }
    known = strides;
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

  struct Strides {
    std::uint64_t page_bytes = 0;
    RowStrides rows;

    bool operator==(const Strides&) const = default;
  };

  const CacheGroup& group_;
  const RankGroup& held_;
  std::size_t r_;
  std::size_t g_;
  std::array<std::optional<Strides>, kMaxTensors> strides_;
  std::vector<std::uint32_t> keys_;
};

void check_overlaps(const KvLayout& layout, std::size_t g) {
  const CacheGroup& group = layout.groups[g];
  std::vector<RowSeries> series;
  std::vector<std::pair<std::size_t, const TensorPlacement*>> origins;
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    const RankGroup& held = layout.ranks[r].groups[g];
    for (const TensorPlacement& placement : held.placements) {
      series.push_back(*rows_of(group, held.heads[placement.tensor], placement));
      origins.emplace_back(r, &placement);
    }
  }
  if (const auto overlap = find_overlap(series)) {
    const auto& [first_rank, first] = origins[overlap->first];
    const auto& [second_rank, second] = origins[overlap->second];
    refuse("pages of ({}) and of ({}) overlap in one region, or are not known to lie apart",
           place(first_rank, g, *first), place(second_rank, g, *second));
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
  check_dp_ranks(layout);
  check_replica_sets(layout);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    check_overlaps(layout, g);
  }
}

void check_no_pages_in(const KvLayout& layout, std::span<const RegionBytes> slots) {
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      const RankGroup& held = layout.ranks[r].groups[g];
      for (const TensorPlacement& placement : held.placements) {
        const RowSeries pages = *rows_of(layout.groups[g], held.heads[placement.tensor], placement);
        // The last slots that begin before the pages' end: others before them end earlier.
        const auto after = std::lower_bound(slots.begin(), slots.end(),
                                            RegionBytes{pages.region, pages.end_bytes, 0});
        if (after == slots.begin()) continue;
        const RegionBytes& last = *std::prev(after);
        if (last.region == pages.region && pages.base_bytes < last.end) {
          refuse("context slots overlap the pages of {}", place(r, g, placement));
        }
      }
    }
  }
}

}  // namespace kvrail

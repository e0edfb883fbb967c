#include "layout/replica_checks.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "layout/dp_ranks.h"
#include "layout/groups_by_layer.h"
#include "layout/refuse.h"
#include "layout/row_strides.h"

namespace kvrail {
namespace {

// How a rank is sharded: all of it but regions, bases and device groups.
struct Shard {
  // Layer, tensor, strides of pages, tokens and heads.
  using Place =
      std::tuple<std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t, std::uint64_t>;

  std::vector<std::uint32_t> coordinates;
  std::vector<std::vector<HeadRange>> heads;  // by group
  std::vector<std::vector<Place>> places;     // by group

  bool operator==(const Shard&) const = default;
};

Shard shard_of(const KvLayout& layout, const RankLayout& rank) {
  Shard shard;
  shard.coordinates = {rank.tp_rank, rank.pp_rank, rank.cp_rank, rank.replica_set};
  for (std::size_t g = 0; g < rank.groups.size(); ++g) {
    const RankGroup& held = rank.groups[g];
    shard.heads.push_back(held.heads);
    auto& places = shard.places.emplace_back();
    for (const TensorPlacement& placement : held.placements) {
      const RowStrides rows =
          row_strides(layout.groups[g], held.heads[placement.tensor], placement);
      places.emplace_back(placement.layer.value(), placement.tensor, placement.page_stride_bytes,
                          rows.token_bytes, rows.head_bytes);
    }
    std::sort(places.begin(), places.end());
  }
  return shard;
}

// The heads of one tensor of one layer that a replica set holds for one cp_rank.
using Holder = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

// What the first data-parallel rank holds, in order.
std::vector<std::pair<Holder, HeadRange>> held_by_sets(const KvLayout& layout) {
  std::vector<std::pair<Holder, HeadRange>> all;
  for (const RankLayout& rank : layout.ranks) {
    if (rank.dp_rank != DpRank{0}) continue;
    for (std::size_t g = 0; g < rank.groups.size(); ++g) {
      const std::uint32_t share = layout.groups[g].cp_ranks == 1 ? 0 : rank.cp_rank;
      if (share >= layout.groups[g].cp_ranks) {
        refuse("a rank has cp_rank {}, but group {} deals its tokens to {} of them", share, g,
               layout.groups[g].cp_ranks);
      }
      for (const TensorPlacement& placement : rank.groups[g].placements) {
        all.emplace_back(Holder{rank.replica_set, placement.layer.value(), placement.tensor, share},
                         rank.groups[g].heads[placement.tensor]);
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.first) < std::tie(b.first, b.second.first);
  });
  return all;
}

}  // namespace

void check_dp_ranks(const KvLayout& layout) {
  std::uint64_t count = 0;
  for (const RankLayout& rank : layout.ranks) {
    count = std::max(count, std::uint64_t{rank.dp_rank.value()} + 1);
  }
  if (count > layout.ranks.size()) {
    refuse("dp_rank {} is used by one of {} ranks; data-parallel ranks are dense from 0", count - 1,
           layout.ranks.size());
  }
  const std::vector<std::vector<RankIndex>> members = ranks_by_dp(layout);
  std::vector<Shard> first;
  for (const RankIndex rank : members[0]) {
    first.push_back(shard_of(layout, layout.ranks[rank.value()]));
  }
  for (std::uint32_t dp = 0; dp < count; ++dp) {
    if (members[dp].size() != members[0].size() || members[dp].empty()) {
      refuse("dp_rank {} has {} ranks, but dp_rank 0 has {}; they must be sharded alike", dp,
             members[dp].size(), members[0].size());
    }
    for (std::size_t i = 0; dp > 0 && i < members[dp].size(); ++i) {
      const RankIndex rank = members[dp][i];
      if (shard_of(layout, layout.ranks[rank.value()]) != first[i]) {
        refuse(
            "rank {} of dp_rank {} is not sharded as rank {} of dp_rank 0 is; coordinates, heads, "
            "layers and strides must be equal",
            rank.value(), dp, members[0][i].value());
      }
    }
  }
}

void check_replica_sets(const KvLayout& layout) {
  const auto all = held_by_sets(layout);
  std::set<std::uint32_t> sets;
  for (const RankLayout& rank : layout.ranks) sets.insert(rank.replica_set);
  const std::vector<CacheGroupIndex> groups = groups_by_layer(layout);
  // Ends at the first gap, so that it costs no more than the placements that there are.
  auto next = all.begin();
  for (const std::uint32_t set : sets) {
    for (std::uint32_t layer = 0; layer < layout.layer_count; ++layer) {
      const CacheGroup& group = layout.groups[groups[layer].value()];
      for (std::uint32_t tensor = 0; tensor < group.tensors.size(); ++tensor) {
        for (std::uint32_t share = 0; share < group.cp_ranks; ++share) {
          std::uint32_t covered = 0;
          for (; next != all.end() && next->first == Holder{set, layer, tensor, share}; ++next) {
            if (next->second.first <= covered) {
              covered = std::max(covered, next->second.first + next->second.count);
            }
          }
          if (covered < group.tensors[tensor].heads) {
            refuse("replica set {} does not hold head {} of layer {}, tensor {}, cp_rank {}", set,
                   covered, layer, tensor, share);
          }
        }
      }
    }
  }
}

}  // namespace kvrail

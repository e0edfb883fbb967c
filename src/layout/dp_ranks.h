#pragma once

#include <vector>

#include "kvrail/kv_layout.h"

namespace kvrail {

// The ranks of each data-parallel rank, in the layout's order. Every dp_rank is less than the
// number of ranks.
inline std::vector<std::vector<RankIndex>> ranks_by_dp(const KvLayout& layout) {
  std::vector<std::vector<RankIndex>> members;
  for (std::uint32_t rank = 0; rank < layout.ranks.size(); ++rank) {
    const std::uint32_t dp = layout.ranks[rank].dp_rank.value();
    if (dp >= members.size()) members.resize(dp + 1);
    members[dp].push_back(RankIndex{rank});
  }
  return members;
}

// The contexts of one data-parallel rank, in the layout's order. They point into the layout.
inline std::vector<const ContextLayout*> contexts_of(const KvLayout& layout, DpRank dp_rank) {
  std::vector<const ContextLayout*> contexts;
  for (const ContextLayout& context : layout.contexts) {
    if (layout.ranks[context.rank.value()].dp_rank == dp_rank) contexts.push_back(&context);
  }
  return contexts;
}

}  // namespace kvrail

#include "layout/sharding_case.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "layout/scramble.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kMaxTokens = 26;

// Cuts [0, whole) into `parts` ranges, some of which may be empty.
std::vector<HeadRange> cut(std::uint32_t whole, std::uint32_t parts, Random& random) {
  std::vector<std::uint32_t> ends = {whole};
  for (std::uint32_t i = 1; i < parts; ++i) ends.push_back(pick(random, 0, whole));
  if (whole % parts == 0 && coin(random)) {
    for (std::uint32_t i = 0; i < parts; ++i) ends[i] = whole / parts * (i + 1);
  }
  std::sort(ends.begin(), ends.end());
  std::vector<HeadRange> ranges;
  std::uint32_t first = 0;
  for (const std::uint32_t end : ends) {
    ranges.push_back({first, end - first});
    first = end;
  }
  return ranges;
}

// The heads of one tensor on each of `ranks` ranks, which hold all of it together.
std::vector<HeadRange> share_out(std::uint32_t heads, std::uint32_t ranks, Random& random) {
  if (seldom(random, 4)) return std::vector<HeadRange>(ranks, {0, heads});
  std::vector<HeadRange> ranges = cut(heads, ranks, random);
  if (seldom(random, 4)) {
    for (HeadRange& range : ranges) {
      const std::uint32_t end = pick(random, range.first + range.count, heads);
      range.first = pick(random, 0, range.first);
      range.count = end - range.first;
    }
  }
  return ranges;
}

std::vector<Heads> random_replica_set(const std::vector<GroupCase>& groups, Random& random) {
  const std::uint32_t ranks = pick(random, 1, 4);
  std::vector<Heads> set(ranks, Heads(groups.size()));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto even = share_out(groups[g].tensors[0].heads, ranks, random);
    for (const TensorCase& tensor : groups[g].tensors) {
      const bool as_first = tensor.heads == groups[g].tensors[0].heads && !seldom(random, 4);
      const auto ranges = as_first ? even : share_out(tensor.heads, ranks, random);
      for (std::uint32_t r = 0; r < ranks; ++r) set[r][g].push_back(ranges[r]);
    }
  }
  // Every rank holds something of every group.
  for (Heads& heads : set) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const bool holds = std::any_of(heads[g].begin(), heads[g].end(),
                                     [](const HeadRange& range) { return range.count > 0; });
      if (!holds) heads[g][0] = {0, 1};
    }
  }
  return set;
}

GroupSide random_group_side(const GroupCase& group, std::uint32_t cp_ranks, Random& random) {
  GroupSide side;
  const bool state = group.kind == CacheKind::kState;
  side.page_tokens = state ? 1 : pick(random, 1, 9);
  side.dealt = !state && cp_ranks > 1 && !seldom(random, 5);
  side.cp_interleave_tokens = pick(random, 1, 5);
  const PageOrder order = coin(random) ? PageOrder::kHnd : PageOrder::kNhd;
  for (std::size_t t = 0; t < group.tensors.size(); ++t) {
    const bool other = seldom(random, 5);
    side.orders.push_back(other == (order == PageOrder::kHnd) ? PageOrder::kNhd : PageOrder::kHnd);
  }
  side.rows = static_cast<Rows>(pick(random, 0, 4));
  side.padding_bytes = coin(random) ? 0 : pick(random, 1, 5);
  side.layers_in_page = seldom(random, 3);
  return side;
}

EngineSide random_side(const std::vector<GroupCase>& groups, std::uint32_t layers, Random& random) {
  EngineSide side;
  side.cp_ranks = seldom(random, 3) ? pick(random, 2, 4) : 1;
  for (const GroupCase& group : groups) {
    side.groups.push_back(random_group_side(group, side.cp_ranks, random));
  }
  const std::uint32_t stages = std::min(layers, seldom(random, 3) ? pick(random, 2, 3) : 1u);
  while (side.stage_ends.size() + 1 < stages) {
    const std::uint32_t end = pick(random, 1, layers - 1);
    const bool known = std::count(side.stage_ends.begin(), side.stage_ends.end(), end) > 0;
    if (!known) side.stage_ends.push_back(end);
  }
  side.stage_ends.push_back(layers);
  std::sort(side.stage_ends.begin(), side.stage_ends.end());
  const std::uint32_t sets = seldom(random, 3) ? pick(random, 2, 3) : 1;
  side.replica_sets.push_back(random_replica_set(groups, random));
  while (side.replica_sets.size() < sets) {
    // Most often sharded as the first, so that there is a choice of sources.
    side.replica_sets.push_back(seldom(random, 3) ? random_replica_set(groups, random)
                                                  : side.replica_sets.front());
  }
  side.dp_ranks = seldom(random, 3) ? pick(random, 2, 3) : 1;
  side.one_region = seldom(random, 3);
  side.sets_differ = coin(random);
  side.heads_differ = coin(random);
  side.scramble = coin(random) ? 0 : random();
  return side;
}

// Places the tensors of one group on one rank, from `base` on; returns where that ends.
class GroupPlacer {
 public:
  GroupPlacer(const CacheGroup& group, const GroupSide& side, const std::vector<LayerIndex>& layers,
              RegionId region)
      : group_(group), side_(side), layers_(layers), region_(region) {}

  std::uint64_t place(std::uint64_t base, RankGroup& held) {
    std::vector<std::uint32_t> tensors;
    for (std::uint32_t t = 0; t < held.heads.size(); ++t) {
      if (held.heads[t].count > 0) tensors.push_back(t);
    }
    const bool apart = side_.rows == Rows::kApart || side_.rows == Rows::kPadded ||
                       (side_.rows == Rows::kSideBySide && !may_share_rows(tensors, held));
    if (!apart) return place_together(base, tensors, held);
    for (const std::uint32_t tensor : tensors) base = place_together(base, {tensor}, held);
    return base;
  }

 private:
  struct Strides {
    std::uint64_t offset = 0;  // of the tensor in the page
    std::uint64_t head = 0;    // 0: dense
    std::uint64_t token = 0;
  };

  bool may_share_rows(const std::vector<std::uint32_t>& tensors, const RankGroup& held) const {
    return std::all_of(tensors.begin(), tensors.end(), [&](std::uint32_t t) {
      return held.heads[t].count == held.heads[tensors[0]].count &&
             side_.orders[t] == side_.orders[tensors[0]];
    });
  }

  // The strides of each tensor in a page of all of them, and the page's size.
  std::uint64_t measure(const std::vector<std::uint32_t>& tensors, const RankGroup& held,
                        std::vector<Strides>& strides) const {
    std::uint64_t row = 0;        // of all tensors, one head
    std::uint64_t token_row = 0;  // of all tensors, all heads
    for (const std::uint32_t t : tensors) {
      row += group_.tensors[t].head_bytes;
      token_row += std::uint64_t{group_.tensors[t].head_bytes} * held.heads[t].count;
    }
    const bool padded = side_.rows == Rows::kPadded || side_.rows == Rows::kSideBySide;
    if (padded) row += side_.padding_bytes;
    std::uint64_t end = 0;
    for (const std::uint32_t t : tensors) {
      const std::uint64_t heads = held.heads[t].count;
      const std::uint64_t bytes = group_.tensors[t].head_bytes;
      Strides own;
      if (padded) {
        own.offset = end;
        const bool hnd = side_.orders[t] == PageOrder::kHnd;
        own.head = hnd ? row * group_.page_tokens : row;
        own.token = hnd ? row : row * heads;
        end += bytes;
      } else if (side_.rows == Rows::kTokensTogether) {
        own.offset = end;
        own.head = bytes;
        own.token = token_row + side_.padding_bytes;
        end += bytes * heads;
      } else {
        own.offset = end;
        end += bytes * heads * group_.page_tokens;
      }
      strides.push_back(own);
    }
    if (padded) return row * held.heads[tensors[0]].count * group_.page_tokens;
    if (side_.rows == Rows::kTokensTogether) {
      return (token_row + side_.padding_bytes) * group_.page_tokens;
    }
    return end + side_.padding_bytes;
  }

  std::uint64_t place_together(std::uint64_t base, const std::vector<std::uint32_t>& tensors,
                               RankGroup& held) {
    if (tensors.empty()) return base;
    std::vector<Strides> strides;
    const std::uint64_t page = measure(tensors, held, strides);
    const std::uint64_t stride = side_.layers_in_page ? page * layers_.size() : page;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::uint64_t start =
          base + (side_.layers_in_page ? i * page : i * page * group_.page_count);
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        held.placements.push_back({layers_[i], tensors[t], region_, start + strides[t].offset,
                                   stride, strides[t].head, strides[t].token});
      }
    }
    return base + page * layers_.size() * group_.page_count;
  }

  const CacheGroup& group_;
  const GroupSide& side_;
  const std::vector<LayerIndex>& layers_;
  const RegionId region_;
};

std::uint32_t layer_count(const ShardingCase& from) {
  std::uint32_t layers = 0;
  for (const GroupCase& group : from.groups) layers += group.layers;
  return layers;
}

// The pipeline stages of a replica set: those of the side, or one stage instead of several and two
// instead of one.
std::vector<std::uint32_t> stages_of(const EngineSide& side, std::uint32_t set) {
  if (!side.sets_differ || set == 0) return side.stage_ends;
  const std::uint32_t layers = side.stage_ends.back();
  if (side.stage_ends.size() == 1 && layers > 1) return {layers / 2, layers};
  return {layers};
}

GroupSide rows_of(const EngineSide& side, std::uint32_t set, std::size_t group) {
  GroupSide rows = side.groups[group];
  if (side.sets_differ) {
    rows.rows = static_cast<Rows>((static_cast<std::uint32_t>(rows.rows) + set) % 5);
    rows.padding_bytes += set;
  }
  return rows;
}

std::vector<CacheGroup> groups_of(const ShardingCase& from, const EngineSide& side) {
  std::vector<CacheGroup> groups;
  std::vector<std::uint32_t> layers(layer_count(from));
  std::iota(layers.begin(), layers.end(), 0);
  if (from.layers != 0) {
    Random random(from.layers);
    std::shuffle(layers.begin(), layers.end(), random);
  }
  auto layer = layers.begin();
  for (std::size_t g = 0; g < from.groups.size(); ++g) {
    const GroupCase& model = from.groups[g];
    const GroupSide& own = side.groups[g];
    CacheGroup group;
    group.name = fmt::format("g{}", g);
    group.kind = model.kind;
    group.page_tokens = own.page_tokens;
    group.page_count = from.sent.end / own.page_tokens + 3;
    group.window_tokens = model.window_tokens;
    group.cp_ranks = own.dealt ? side.cp_ranks : 1;
    group.cp_interleave_tokens = own.cp_interleave_tokens;
    for (std::size_t t = 0; t < model.tensors.size(); ++t) {
      group.tensors.push_back({fmt::format("t{}", t), model.tensors[t].heads,
                               model.tensors[t].head_bytes, own.orders[t]});
    }
    for (std::uint32_t i = 0; i < model.layers; ++i) group.layers.push_back(LayerIndex{*layer++});
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

ShardingCase random_case(Random& random) {
  ShardingCase result;
  for (std::uint32_t g = pick(random, 1, 3); g > 0; --g) {
    GroupCase group;
    if (seldom(random, 6)) {
      group.kind = CacheKind::kState;
    } else if (seldom(random, 4)) {
      group.window_tokens = pick(random, 1, kMaxTokens);
    }
    group.layers = pick(random, 1, 3);
    for (std::uint32_t t = pick(random, 1, 3); t > 0; --t) {
      const std::uint32_t heads = seldom(random, 8)   ? 24
                                  : seldom(random, 3) ? 1
                                                      : pick(random, 1, 8);
      group.tensors.push_back({heads, pick(random, 1, 4)});
    }
    if (group.tensors.size() > 1 && coin(random)) group.tensors[1] = group.tensors[0];
    result.groups.push_back(std::move(group));
  }
  const std::uint32_t layers = layer_count(result);
  result.source = random_side(result.groups, layers, random);
  result.target = random_side(result.groups, layers, random);
  if (seldom(random, 3)) {
    // Dealt out alike on both sides.
    result.target.cp_ranks = result.source.cp_ranks;
    for (std::size_t g = 0; g < result.groups.size(); ++g) {
      result.target.groups[g].dealt = result.source.groups[g].dealt;
      result.target.groups[g].cp_interleave_tokens = result.source.groups[g].cp_interleave_tokens;
    }
  }
  result.sent.end = pick(random, 0, kMaxTokens);
  result.sent.first = coin(random) ? 0 : pick(random, 0, result.sent.end);
  std::uint32_t end = pick(random, 0, result.sent.first);
  while (end < result.sent.end) {
    end = pick(random, end + 1, kMaxTokens + 3);
    result.chunk_ends.push_back(end);
  }
  if (seldom(random, 4)) result.chunk_ends.push_back(end + pick(random, 1, 3));
  result.source_dp = pick(random, 0, result.source.dp_ranks - 1);
  result.target_dp = pick(random, 0, result.target.dp_ranks - 1);
  result.seed = random();
  result.layers = coin(random) ? 0 : random();
  return result;
}

KvLayout layout_of(const ShardingCase& from, const EngineSide& side) {
  KvLayout layout;
  layout.model = "case";
  layout.layer_count = layer_count(from);
  layout.groups = groups_of(from, side);
  std::uint64_t shared_end = 0;
  const auto add_rank = [&](const RankLayout& coordinates, const Heads& heads) {
    RankLayout rank = coordinates;
    const std::vector<std::uint32_t> stage_ends = stages_of(side, rank.replica_set);
    const std::uint32_t stage = rank.pp_rank;
    const std::uint32_t stage_first = stage == 0 ? 0 : stage_ends[stage - 1];
    const RegionId region{side.one_region ? 0 : static_cast<std::uint32_t>(layout.ranks.size())};
    std::uint64_t end = side.one_region ? shared_end : 0;
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      RankGroup held;
      std::vector<LayerIndex> layers;
      for (const LayerIndex layer : layout.groups[g].layers) {
        if (layer.value() >= stage_first && layer.value() < stage_ends[stage]) {
          layers.push_back(layer);
        }
      }
      held.heads = layers.empty() ? std::vector<HeadRange>(heads[g].size()) : heads[g];
      const GroupSide rows = rows_of(side, rank.replica_set, g);
      end = GroupPlacer(layout.groups[g], rows, layers, region).place(end, held);
      rank.groups.push_back(std::move(held));
    }
    if (side.one_region) shared_end = end;
    layout.ranks.push_back(std::move(rank));
  };
  for (std::uint32_t dp = 0; dp < side.dp_ranks; ++dp) {
    for (std::uint32_t set = 0; set < side.replica_sets.size(); ++set) {
      for (std::uint32_t stage = 0; stage < stages_of(side, set).size(); ++stage) {
        for (std::uint32_t cp = 0; cp < side.cp_ranks; ++cp) {
          const std::size_t like = side.heads_differ ? set + stage + cp : set;
          const auto& heads = side.replica_sets[like % side.replica_sets.size()];
          for (std::uint32_t tp = 0; tp < heads.size(); ++tp) {
            RankLayout rank;
            rank.dp_rank = DpRank{dp};
            rank.tp_rank = tp;
            rank.pp_rank = stage;
            rank.cp_rank = cp;
            rank.replica_set = set;
            add_rank(rank, heads[tp]);
          }
        }
      }
    }
  }
  if (side.scramble != 0) scramble(layout, side.scramble);
  return layout;
}

std::string to_text(const ShardingCase& from) {
  return fmt::format(
      "tokens [{}, {}) in chunks that end at {}, from dp_rank {} to dp_rank {}, seed {}\nsource "
      "({}):\n{}target ({}):\n{}",
      from.sent.first, from.sent.end, fmt::join(from.chunk_ends, ", "), from.source_dp,
      from.target_dp, from.seed, from.source.one_region ? "one region" : "a region per rank",
      to_text(layout_of(from, from.source)),
      from.target.one_region ? "one region" : "a region per rank",
      to_text(layout_of(from, from.target)));
}

}  // namespace kvrail

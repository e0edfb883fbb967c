#include "kvrail/kv_builders.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/cache_groups.h"
#include "layout/checked_math.h"
#include "layout/rank_shards.h"
#include "layout/refuse.h"

namespace kvrail {
namespace {

// A cache line; keeps slots of different requests apart.
constexpr std::uint64_t kSlotAlignment = 64;

std::uint64_t or_refuse(std::optional<std::uint64_t> size) {
  if (!size) {
    refuse("a KV cache of these options exceeds 64 bits");
  }
  return *size;
}

std::uint64_t aligned(std::uint64_t size) {
  return or_refuse(checked_add(size, kSlotAlignment - 1)) / kSlotAlignment * kSlotAlignment;
}

// What one rank holds of one group. Its layers follow each other in memory.
struct GroupShare {
  std::vector<HeadRange> heads;             // by tensor
  std::vector<std::uint64_t> tensor_bytes;  // of one page, by tensor
  std::uint64_t page_bytes = 0;             // of all tensors
  std::uint64_t layer_bytes = 0;            // of all pages
  std::vector<LayerIndex> layers;
  std::uint64_t bytes = 0;
};

GroupShare share_of(const KvCacheOptions& options, const CacheGroup& group,
                    const RankCoordinates& at) {
  GroupShare share;
  const LayerSpan stage = stage_layers(options, at.pp);
  std::copy_if(group.layers.begin(), group.layers.end(), std::back_inserter(share.layers),
               [&](LayerIndex layer) { return stage.holds(layer); });
  for (const TensorLayout& tensor : group.tensors) {
    const HeadRange heads = heads_of(options, tensor, at.tp);
    share.heads.push_back(share.layers.empty() ? HeadRange{} : heads);
    share.tensor_bytes.push_back(
        or_refuse(checked_product(group.page_tokens, heads.count, tensor.head_bytes)));
    share.page_bytes = or_refuse(checked_add(share.page_bytes, share.tensor_bytes.back()));
  }
  share.layer_bytes = or_refuse(checked_product(share.page_bytes, group.page_count));
  share.bytes = or_refuse(checked_product(share.layer_bytes, share.layers.size()));
  return share;
}

std::uint64_t bytes_at(const KvCacheOptions& options, const std::vector<CacheGroup>& groups,
                       const RankCoordinates& at) {
  std::uint64_t bytes = 0;
  for (const CacheGroup& group : groups) {
    bytes = or_refuse(checked_add(bytes, share_of(options, group, at).bytes));
  }
  return bytes;
}

// From the start of a layer to each tensor's first page.
std::vector<std::uint64_t> tensor_offsets(const KvCacheOptions& options, const CacheGroup& group,
                                          const GroupShare& share) {
  std::vector<std::size_t> order(share.tensor_bytes.size());
  for (std::size_t t = 0; t < order.size(); ++t) order[t] = t;
  if (options.fused_kv && options.value_first && group.tensors[0].name == "k") {
    std::swap(order[0], order[1]);
  }
  std::vector<std::uint64_t> offsets(order.size());
  std::uint64_t next = 0;
  for (const std::size_t t : order) {
    offsets[t] = next;
    next += share.tensor_bytes[t] * (options.fused_kv ? 1 : group.page_count);
  }
  return offsets;
}

// Appends the rank's part of the group, which begins at `base` of the region.
void add_group(const KvCacheOptions& options, const CacheGroup& group, GroupShare share,
               RegionId region, std::uint64_t base, RankLayout& rank) {
  const std::vector<std::uint64_t> offsets = tensor_offsets(options, group, share);
  RankGroup held;
  held.heads = std::move(share.heads);
  for (const LayerIndex layer : share.layers) {
    for (std::uint32_t t = 0; t < offsets.size(); ++t) {
      TensorPlacement placement;
      placement.layer = layer;
      placement.tensor = t;
      placement.region = region;
      placement.base_offset_bytes = base + offsets[t];
      placement.page_stride_bytes = options.fused_kv ? share.page_bytes : share.tensor_bytes[t];
      held.placements.push_back(placement);
    }
    base += share.layer_bytes;
  }
  rank.groups.push_back(std::move(held));
}

RankLayout make_rank(const KvCacheOptions& options, const std::vector<CacheGroup>& groups,
                     const RankCoordinates& at, std::uint32_t sets, const RankMemory& memory) {
  RankLayout rank;
  rank.dp_rank = DpRank{at.dp};
  rank.tp_rank = at.tp;
  rank.pp_rank = at.pp;
  rank.cp_rank = at.cp;
  rank.replica_set = at.tp % sets;
  rank.device_group = memory.device_group;
  std::uint64_t base = 0;
  for (const CacheGroup& group : groups) {
    GroupShare share = share_of(options, group, at);
    const std::uint64_t bytes = share.bytes;
    add_group(options, group, std::move(share), memory.region, base, rank);
    base = or_refuse(checked_add(base, bytes));
  }
  return rank;
}

std::uint64_t slot_bytes(const KvCacheOptions& options) {
  return options.context_slot_bytes != 0
             ? options.context_slot_bytes
             : std::uint64_t{options.model.hidden_size} * options.model.element_bytes;
}

void add_contexts(const KvCacheOptions& options, std::span<const RankMemory> ranks,
                  std::span<const RegionId> regions, KvLayout& layout) {
  if (options.context_slots == 0) return;
  if (!regions.empty() && regions.size() != options.data_parallel) {
    refuse("context_regions has {} regions, but must have one for each of {} data-parallel ranks",
           regions.size(), options.data_parallel);
  }
  for (std::uint32_t dp = 0; dp < options.data_parallel; ++dp) {
    ContextLayout context;
    context.slot_count = options.context_slots;
    context.slot_bytes = slot_bytes(options);
    context.slot_stride_bytes = aligned(context.slot_bytes);
    context.rank = context_rank(options, DpRank{dp});
    context.region = regions.empty() ? ranks[context.rank.value()].region : regions[dp];
    context.base_offset_bytes = regions.empty() ? aligned(kv_bytes(options, context.rank)) : 0;
    layout.contexts.push_back(context);
  }
}

// Before as many are made.
void check_placements(const KvCacheOptions& options, const std::vector<CacheGroup>& groups) {
  std::uint64_t placements = 0;
  for (const CacheGroup& group : groups) placements += group.layers.size() * group.tensors.size();
  placements *= rank_count(options) / options.pipeline_parallel;
  if (placements > kMaxPlacements) {
    refuse("{} over {} ranks has {} tensors of layers, but at most {} are served",
           options.model.name, rank_count(options), placements, kMaxPlacements);
  }
}

}  // namespace

std::uint32_t rank_count(const KvCacheOptions& options) {
  check_parallel(options);
  return options.tensor_parallel * options.pipeline_parallel * options.context_parallel *
         options.data_parallel;
}

RankIndex context_rank(const KvCacheOptions& options, DpRank dp_rank) {
  check_parallel(options);
  if (dp_rank.value() >= options.data_parallel) {
    refuse("data-parallel rank {} was asked for, but data_parallel is {}", dp_rank.value(),
           options.data_parallel);
  }
  return rank_at(options, {dp_rank.value(), options.pipeline_parallel - 1, 0, 0});
}

std::uint64_t kv_bytes(const KvCacheOptions& options, RankIndex rank) {
  const std::vector<CacheGroup> groups = cache_groups(options);
  check_parallel(options);
  return bytes_at(options, groups, coordinates_of(options, rank));
}

std::uint64_t context_bytes(const KvCacheOptions& options) {
  if (options.context_slots == 0) {
    return 0;
  }
  if (slot_bytes(options) == 0) {
    refuse("context_slot_bytes is 0, and the model has no hidden_size to take it from");
  }
  return or_refuse(checked_product(options.context_slots, aligned(slot_bytes(options))));
}

std::uint64_t region_bytes(const KvCacheOptions& options, RankIndex rank) {
  const std::uint64_t pages = kv_bytes(options, rank);
  const DpRank dp_rank{coordinates_of(options, rank).dp};
  if (options.context_slots == 0 || rank != context_rank(options, dp_rank)) {
    return pages;
  }
  return or_refuse(checked_add(aligned(pages), context_bytes(options)));
}

KvLayout make_kv_layout(const KvCacheOptions& options, std::span<const RankMemory> ranks,
                        std::span<const RegionId> context_regions) {
  KvLayout layout;
  layout.model = options.model.name;
  layout.layer_count = options.model.all_layers();
  layout.groups = cache_groups(options);
  if (ranks.size() != rank_count(options)) {
    refuse("memory was given for {} ranks, but the options make {}", ranks.size(),
           rank_count(options));
  }
  check_placements(options, layout.groups);
  // With the context slots, it fits into 64 bits.
  region_bytes(options, context_rank(options, DpRank{0}));

  const std::uint32_t sets = replica_sets(options, layout.groups);
  for (std::uint32_t index = 0; index < ranks.size(); ++index) {
    layout.ranks.push_back(make_rank(
        options, layout.groups, coordinates_of(options, RankIndex{index}), sets, ranks[index]));
  }
  add_contexts(options, ranks, context_regions, layout);
  validate(layout);
  return layout;
}

}  // namespace kvrail

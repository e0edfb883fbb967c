#include "kvrail/kv_builders.h"

#include <algorithm>
#include <string>

#include "kvrail/error.h"
#include "layout/checked_math.h"
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

// The sizes of one rank, in bytes.
struct RankSizes {
  std::uint32_t tensors = 1;
  std::uint32_t heads = 1;  // of one rank
  std::uint32_t head_bytes = 0;
  std::uint64_t page = 0;   // of one tensor
  std::uint64_t layer = 0;  // all pages of all tensors
};

std::uint32_t heads_per_rank(const KvCacheOptions& options) {
  const std::uint32_t heads = options.model.kv_heads;
  const std::uint32_t ranks = options.tensor_parallel;
  const auto [low, high] = std::minmax(heads, ranks);
  if (low == 0 || high % low != 0) {
    refuse("{} KV heads of {} cannot be sharded over {} ranks; one number must divide the other",
           heads, options.model.name, ranks);
  }
  return std::max(heads / ranks, 1u);
}

RankSizes rank_sizes(const KvCacheOptions& options) {
  if (options.tensor_parallel == 0 || options.tensor_parallel > kMaxRanks) {
    refuse("tensor_parallel is {}, but must be 1 to {}", options.tensor_parallel, kMaxRanks);
  }
  if (options.page_count == 0) {
    refuse("page_count is 0; set it to the number of pages of the pool");
  }
  const ModelShape& model = options.model;
  RankSizes sizes;
  if (!model.is_latent()) {
    sizes.tensors = 2;
    sizes.heads = heads_per_rank(options);
  }
  const std::uint64_t head_bytes =
      std::uint64_t{model.is_latent() ? model.latent_size : model.head_size} * model.element_bytes;
  if (head_bytes == 0 || head_bytes > UINT32_MAX) {
    refuse("a head of {} has {} bytes, but must have 1 to {}", model.name, head_bytes, UINT32_MAX);
  }
  sizes.head_bytes = static_cast<std::uint32_t>(head_bytes);
  sizes.page = or_refuse(checked_product(options.page_tokens, sizes.heads, head_bytes));
  sizes.layer = or_refuse(checked_product(sizes.page, sizes.tensors, options.page_count));
  return sizes;
}

std::uint64_t slot_bytes(const KvCacheOptions& options) {
  return options.context_slot_bytes != 0
             ? options.context_slot_bytes
             : std::uint64_t{options.model.hidden_size} * options.model.element_bytes;
}

CacheGroup make_group(const KvCacheOptions& options, const RankSizes& sizes) {
  CacheGroup group;
  group.name = "full";
  group.page_tokens = options.page_tokens;
  group.page_count = options.page_count;
  if (options.model.is_latent()) {
    group.tensors = {{"latent", 1, sizes.head_bytes, options.order}};
  } else {
    for (const char* name : {"k", "v"}) {
      group.tensors.push_back({name, options.model.kv_heads, sizes.head_bytes, options.order});
    }
  }
  for (std::uint32_t layer = 0; layer < options.model.layers; ++layer) {
    group.layers.push_back(LayerIndex{layer});
  }
  return group;
}

RankLayout make_rank(const KvCacheOptions& options, const RankSizes& sizes, std::uint32_t index,
                     const RankMemory& memory) {
  // Ranks that hold the same heads, one after another; each is in a replica set of its own.
  const std::uint32_t copies = options.model.is_latent()
                                   ? options.tensor_parallel
                                   : std::max(options.tensor_parallel / options.model.kv_heads, 1u);
  RankLayout rank;
  rank.tp_rank = index;
  rank.replica_set = index % copies;
  rank.device_group = memory.device_group;
  RankGroup held;
  held.heads.assign(sizes.tensors, {index / copies * sizes.heads, sizes.heads});
  // From one tensor's page to the next tensor's, and from a page to the next of the same tensor.
  const std::uint64_t tensor_stride =
      options.fused_kv ? sizes.page : sizes.page * options.page_count;
  const std::uint64_t page_stride = options.fused_kv ? sizes.page * sizes.tensors : sizes.page;
  for (std::uint32_t layer = 0; layer < options.model.layers; ++layer) {
    for (std::uint32_t tensor = 0; tensor < sizes.tensors; ++tensor) {
      held.placements.push_back({LayerIndex{layer}, tensor, memory.region,
                                 layer * sizes.layer + tensor * tensor_stride, page_stride});
    }
  }
  rank.groups.push_back(std::move(held));
  return rank;
}

}  // namespace

std::uint64_t kv_bytes_per_rank(const KvCacheOptions& options) {
  return or_refuse(checked_product(rank_sizes(options).layer, options.model.layers));
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
  const std::uint64_t pages = kv_bytes_per_rank(options);
  if (rank.value() != 0 || options.context_slots == 0) {
    return pages;
  }
  return or_refuse(checked_add(aligned(pages), context_bytes(options)));
}

KvLayout make_kv_layout(const KvCacheOptions& options, std::span<const RankMemory> ranks,
                        std::optional<RegionId> context_region) {
  const RankSizes sizes = rank_sizes(options);
  if (ranks.size() != options.tensor_parallel) {
    refuse("memory was given for {} ranks, but tensor_parallel is {}", ranks.size(),
           options.tensor_parallel);
  }
  if (options.model.layers > kMaxLayers) {
    refuse("{} has {} layers, but at most {} are served", options.model.name, options.model.layers,
           kMaxLayers);
  }
  // The sum of all sizes fits.
  region_bytes(options, RankIndex{0});

  KvLayout layout;
  layout.model = options.model.name;
  layout.layer_count = options.model.layers;
  layout.groups.push_back(make_group(options, sizes));
  for (std::uint32_t index = 0; index < ranks.size(); ++index) {
    layout.ranks.push_back(make_rank(options, sizes, index, ranks[index]));
  }
  if (options.context_slots != 0) {
    ContextLayout context;
    context.slot_count = options.context_slots;
    context.slot_bytes = slot_bytes(options);
    context.slot_stride_bytes = aligned(context.slot_bytes);
    context.rank = RankIndex{0};
    context.region = context_region.value_or(ranks[0].region);
    context.base_offset_bytes = context_region ? 0 : aligned(kv_bytes_per_rank(options));
    layout.context = context;
  }
  validate(layout);
  return layout;
}

}  // namespace kvrail

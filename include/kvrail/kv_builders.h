#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kvrail/ids.h"
#include "kvrail/kv_layout.h"
#include "kvrail/model_shape.h"

namespace kvrail {

// A KV cache as most engines have it: one cache group over all layers, sharded by tensor
// parallelism, each rank's layers one after another in one region.
//
// Grouped-query attention with h KV heads on n ranks: h / n heads per rank, or, where there are
// more ranks than heads, one head per rank and each head on n / h ranks, one after another. Latent
// attention: the whole latent on every rank.
//
// Within a layer: fused, K and V of a page adjoin (FlashInfer: pages, 2, heads, tokens, head size);
// separate, all pages of K come before all pages of V.
struct KvCacheOptions {
  ModelShape model;
  std::uint32_t tensor_parallel = 1;
  std::uint32_t page_tokens = 64;
  std::uint32_t page_count = 0;  // on every rank
  PageOrder order = PageOrder::kHnd;
  bool fused_kv = true;

  // Slots for what follows the last layer, held by rank 0; none if 0.
  std::uint32_t context_slots = 0;
  // 0: one hidden state (hidden_size x element_bytes).
  std::uint64_t context_slot_bytes = 0;
};

// The memory that one rank was given.
struct RankMemory {
  RegionId region;
  DeviceGroupId device_group;
};

// Bytes of KV pages on one rank; the same on every rank. This and the following throw Error
// (kInvalidArgument) on options that fit no cache.
std::uint64_t kv_bytes_per_rank(const KvCacheOptions& options);

// Bytes of all context slots; each begins on a multiple of 64.
std::uint64_t context_bytes(const KvCacheOptions& options);

// Bytes that a rank's region needs if the context slots are at the end of rank 0's region.
std::uint64_t region_bytes(const KvCacheOptions& options, RankIndex rank);

// The layout, valid by validate(). `ranks` has one entry per rank. Context slots, if there are any,
// begin at the start of `context_region`, or, without one, behind the pages in rank 0's region.
KvLayout make_kv_layout(const KvCacheOptions& options, std::span<const RankMemory> ranks,
                        std::optional<RegionId> context_region = std::nullopt);

}  // namespace kvrail

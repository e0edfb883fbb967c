#pragma once

#include <cstdint>
#include <span>

#include "kvrail/ids.h"
#include "kvrail/kv_layout.h"
#include "kvrail/model_shape.h"

namespace kvrail {

// A KV cache as most engines have it: the layers of each kind in a cache group ("full", "window",
// "state", "draft"), each rank's cache in one region, group after group and layer after layer.
//
// Ranks are numbered by data-parallel rank, then pipeline stage, then context-parallel, then
// tensor-parallel rank: ((dp * pipeline_parallel + pp) * context_parallel + cp) * tensor_parallel
// + tp.
//
// Tensor parallelism over n ranks: h heads give h / n per rank, or, where there are more ranks than
// heads, one head per rank and each head on n / h ranks, one after another. Latents and indexer
// rows are whole on every rank. Pipeline parallelism: the layers are cut into even stages, earlier
// ones taking what is left over; draft layers are on the last. Context parallelism deals out the
// tokens of all groups but states.
//
// Within a layer: fused, K and V of a page adjoin (FlashInfer: pages, 2, heads, tokens, head size);
// separate, all pages of K come before all pages of V. Indexer rows and the tensors of a state
// follow in the same way.
struct KvCacheOptions {
  ModelShape model;
  std::uint32_t tensor_parallel = 1;
  std::uint32_t pipeline_parallel = 1;
  std::uint32_t context_parallel = 1;
  std::uint32_t data_parallel = 1;
  std::uint32_t cp_interleave_tokens = 1;
  std::uint32_t page_tokens = 64;
  std::uint32_t page_count = 0;   // of each group of tokens, on every rank
  std::uint32_t state_count = 0;  // pages of the states' group; at least 1 if the model has states
  PageOrder order = PageOrder::kHnd;
  bool fused_kv = true;
  bool value_first = false;  // V before K, if fused

  // Slots for what follows the last layer, held by the first rank of each data-parallel rank's last
  // stage; none if 0.
  std::uint32_t context_slots = 0;
  // 0: one hidden state (hidden_size x element_bytes).
  std::uint64_t context_slot_bytes = 0;
};

// The memory that one rank was given.
struct RankMemory {
  RegionId region;
  DeviceGroupId device_group;
};

// The number of ranks, and the rank that holds the context slots of a data-parallel rank. These and
// the following throw Error (kInvalidArgument) on options that fit no cache.
std::uint32_t rank_count(const KvCacheOptions& options);
RankIndex context_rank(const KvCacheOptions& options, DpRank dp_rank);

// Bytes of KV pages on one rank.
std::uint64_t kv_bytes(const KvCacheOptions& options, RankIndex rank);

// Bytes of all context slots of one data-parallel rank; each begins on a multiple of 64.
std::uint64_t context_bytes(const KvCacheOptions& options);

// Bytes that a rank's region needs if context slots are at the end of their rank's region.
std::uint64_t region_bytes(const KvCacheOptions& options, RankIndex rank);

// The layout, valid by validate(). `ranks` has one entry per rank. Context slots, if there are any,
// begin at the start of the region that `context_regions` has for the data-parallel rank, or, where
// that is empty, behind the pages in their rank's region.
KvLayout make_kv_layout(const KvCacheOptions& options, std::span<const RankMemory> ranks,
                        std::span<const RegionId> context_regions = {});

}  // namespace kvrail

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/ids.h"

namespace kvrail {

// Order inside one page of one tensor on one rank.
enum class PageOrder : std::uint8_t {
  kHnd,  // heads, tokens, head bytes: a head's tokens are contiguous
  kNhd,  // tokens, heads, head bytes: a token's heads are contiguous
};

// One tensor (K, V, a latent, ...) as the model has it, before sharding.
struct TensorLayout {
  std::string name;              // "k", "v", "latent"; equal on both sides
  std::uint32_t heads = 1;       // over the whole model; 1 for a latent
  std::uint32_t head_bytes = 0;  // head size x element size; at least 1
  PageOrder order = PageOrder::kHnd;

  bool operator==(const TensorLayout&) const = default;
};

// What a page holds.
enum class CacheKind : std::uint8_t {
  kTokens,  // the rows of page_tokens tokens
  kState,   // the state of one sequence after its last token (recurrent, convolution)
};

// The layers that share one page table.
struct CacheGroup {
  std::string name;  // "full"; equal on both sides
  CacheKind kind = CacheKind::kTokens;
  std::uint32_t page_tokens = 0;  // at least 1; 1 for states, of which a request has one page
  std::uint32_t page_count = 0;   // pages in the pool, the same on every rank; at least 1

  // The layers attend to the last window_tokens tokens only, and only those cross; 0: to all.
  std::uint32_t window_tokens = 0;

  // Context parallelism deals the tokens out, cp_interleave_tokens at a time: token t is on the
  // ranks with cp_rank = t / cp_interleave_tokens % cp_ranks, which hold it among their own tokens
  // in order. 1: every rank has all tokens, whatever its cp_rank; so it is for states.
  std::uint32_t cp_ranks = 1;
  std::uint32_t cp_interleave_tokens = 1;

  std::vector<TensorLayout> tensors;
  std::vector<LayerIndex> layers;  // no layer is in two groups

  bool operator==(const CacheGroup&) const = default;
};

// Where one tensor of one layer lives on one rank. A row is one head of one token, head_bytes long.
// The row of (page p, head h of those that the rank holds, slot s) begins at
//   base_offset_bytes + p * page_stride_bytes + h * head_stride_bytes + s * token_stride_bytes
// of the region. Strides of heads and tokens that are 0 stand for those of a dense page in the
// tensor's order; others say where rows are padded, or where tensors share them (K and V of a head
// side by side). A page must lie within page_stride_bytes, which is more than the page where
// tensors interleave (K and V of a page in one allocation: one stride, two bases). All layers of a
// tensor have the same strides on one rank.
struct TensorPlacement {
  LayerIndex layer;
  std::uint32_t tensor = 0;  // index into CacheGroup::tensors
  RegionId region;           // of the node that holds the rank
  std::uint64_t base_offset_bytes = 0;
  std::uint64_t page_stride_bytes = 0;
  std::uint64_t head_stride_bytes = 0;
  std::uint64_t token_stride_bytes = 0;

  bool operator==(const TensorPlacement&) const = default;
};

// The heads of one tensor that a rank holds: [first, first + count).
struct HeadRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  bool operator==(const HeadRange&) const = default;
};

// What one rank holds of one cache group: for each of its layers (all of the group, or those of its
// pipeline stage), one placement per tensor of which it has heads.
struct RankGroup {
  std::vector<HeadRange> heads;  // one per CacheGroup::tensors; count 0: it holds none of it
  std::vector<TensorPlacement> placements;

  bool operator==(const RankGroup&) const = default;
};

// One shard of an engine. Ranks of one dp_rank hold the pages of a request together and number them
// alike; each dp_rank has its own requests, pages and page numbers. All are sharded alike: the i-th
// rank of one is as the i-th of any other, but for regions, bases and device groups.
struct RankLayout {
  DpRank dp_rank;
  std::uint32_t tp_rank = 0;
  std::uint32_t pp_rank = 0;
  std::uint32_t cp_rank = 0;
  // Ranks of one dp_rank with the same number hold one full copy together.
  std::uint32_t replica_set = 0;
  DeviceGroupId device_group;     // of the node that holds the rank
  std::vector<RankGroup> groups;  // one per KvLayout::groups

  bool operator==(const RankLayout&) const = default;
};

// Pre-allocated slots for what follows the last layer (hidden states, logits), held by one rank.
// Slot s is at base_offset_bytes + s * slot_stride_bytes of the region and is slot_bytes long.
struct ContextLayout {
  std::uint32_t slot_count = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t slot_stride_bytes = 0;
  RankIndex rank;
  RegionId region;
  std::uint64_t base_offset_bytes = 0;

  bool operator==(const ContextLayout&) const = default;
};

// One engine's KV cache: what it holds and where. Plain data; check it with validate().
struct KvLayout {
  std::string model;  // equal on both sides
  std::uint32_t layer_count = 0;
  std::vector<CacheGroup> groups;
  std::vector<RankLayout> ranks;
  // At most one per rank. Those of one dp_rank hold the same: a source sends from one of them, a
  // target receives into all. Every dp_rank has some, on the same ranks of it, or none has.
  std::vector<ContextLayout> contexts;

  bool operator==(const KvLayout&) const = default;
};

// What validate() accepts. Layouts come from peers too: these bound what one costs to keep and
// check.
inline constexpr std::uint32_t kMaxLayers = 4096;
inline constexpr std::uint32_t kMaxCacheGroups = 64;
inline constexpr std::uint32_t kMaxTensors = 64;  // of one cache group
inline constexpr std::uint32_t kMaxRanks = 1024;
inline constexpr std::uint32_t kMaxPlacements = 1u << 20;  // of all ranks together
inline constexpr std::uint32_t kMaxPageTokens = 65536;
inline constexpr std::uint32_t kMaxHeads = 65536;
inline constexpr std::uint64_t kMaxPageBytes = std::uint64_t{1} << 40;  // one tensor, all heads
inline constexpr std::uint64_t kMaxContextSlotBytes = std::uint64_t{1} << 40;
inline constexpr std::uint32_t kMaxNameSize = 256;  // printable ASCII

// Throws Error (kInvalidArgument) that names the first field out of range: counts outside the
// limits above, sums that overflow 64 bits, a layer in two groups or in none, a rank without a
// placement, a layer that a rank holds in part, heads outside the tensor, a replica set that lacks
// heads or tokens of a layer, data-parallel ranks that differ, pages of one cache group that
// overlap or are not known to lie apart, context slots that overlap pages. Costs O(n log n) in the
// number of placements.
void validate(const KvLayout& layout);

// Canonical text, one line per fact, without addresses, regions, device groups or pool sizes: what
// two peers compare and errors quote. Takes any layout, valid or not.
std::string to_text(const KvLayout& layout);

}  // namespace kvrail

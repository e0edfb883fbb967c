#pragma once

#include <cstdint>
#include <span>

#include "kvrail/kv_builders.h"

namespace kvrail {

// How the ranks of KvCacheOptions share a cache. Everything here throws Error (kInvalidArgument)
// that names the option that does not fit.

struct RankCoordinates {
  std::uint32_t dp = 0;
  std::uint32_t pp = 0;
  std::uint32_t cp = 0;
  std::uint32_t tp = 0;
};

// Every option of parallelism is in its range, and so is their product.
void check_parallel(const KvCacheOptions& options);

// Of options that passed check_parallel.
RankCoordinates coordinates_of(const KvCacheOptions& options, RankIndex rank);
RankIndex rank_at(const KvCacheOptions& options, const RankCoordinates& at);

// Layers [first, end) of a pipeline stage, draft layers among them.
struct LayerSpan {
  std::uint32_t first = 0;
  std::uint32_t end = 0;

  bool holds(LayerIndex layer) const { return layer.value() >= first && layer.value() < end; }
};
LayerSpan stage_layers(const KvCacheOptions& options, std::uint32_t pp);

// The heads of a tensor that a tensor-parallel rank holds.
HeadRange heads_of(const KvCacheOptions& options, const TensorLayout& tensor, std::uint32_t tp);

// How often the ranks of one data-parallel rank hold all tensors of all groups. Rank tp is in set
// tp % replica_sets: r ranks, one after another, hold the same heads of a tensor, r is at least the
// number of sets for each of them, and so each set has one of the r.
std::uint32_t replica_sets(const KvCacheOptions& options, std::span<const CacheGroup> groups);

}  // namespace kvrail

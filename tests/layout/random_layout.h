#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

using Random = std::mt19937_64;

// Uniform in [first, last].
inline std::uint32_t pick(Random& random, std::uint32_t first, std::uint32_t last) {
  return std::uniform_int_distribution<std::uint32_t>(first, last)(random);
}
inline bool coin(Random& random) { return pick(random, 0, 1) == 1; }

// How a model is cut over the ranks: groups, tensors, heads per rank, layers per pipeline stage;
// without placements and pools.
KvLayout random_sharding(Random& random);

// The sharding with pools and placements of its own: strides, bases, gaps, regions, fused or not.
KvLayout placed_at_random(KvLayout sharding, std::uint32_t max_tokens, Random& random);

// Bytes that each region needs (index: RegionId), with a few more behind.
std::vector<std::uint64_t> region_sizes(const KvLayout& layout);

// Distinct pages for a prompt of `tokens` tokens, in random order.
RequestPages random_pages(const KvLayout& layout, std::uint32_t tokens, Random& random);

}  // namespace kvrail

#pragma once

#include <cstdint>

#include "kvrail/kv_layout.h"

namespace kvrail {

// Changes what says nothing about the sharding: the order of ranks (of all data-parallel ranks
// alike), placements and layers, which region a tensor is in and where that begins, and whether
// dense strides are given or left to be found. A valid layout stays valid.
void scramble(KvLayout& layout, std::uint64_t seed);

}  // namespace kvrail

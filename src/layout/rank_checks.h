#pragma once

#include <cstdint>

#include "kvrail/kv_layout.h"

namespace kvrail {

// The part of validate() that is about ranks and their placements. The groups are valid and there
// are 1 to kMaxRanks ranks. Throws Error (kInvalidArgument).
void check_ranks(const KvLayout& layout);

// Throws Error (kInvalidArgument) if a placement of a layout with valid ranks reaches into
// [first, end) of `region`.
void check_no_pages_in(const KvLayout& layout, RegionId region, std::uint64_t first,
                       std::uint64_t end);

}  // namespace kvrail

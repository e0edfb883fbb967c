#pragma once

#include <compare>
#include <cstdint>
#include <span>

#include "kvrail/kv_layout.h"

namespace kvrail {

// The part of validate() that is about ranks and their placements. The groups are valid and there
// are 1 to kMaxRanks ranks. Throws Error (kInvalidArgument).
void check_ranks(const KvLayout& layout);

// Bytes [first, end) of a region.
struct RegionBytes {
  RegionId region;
  std::uint64_t first = 0;
  std::uint64_t end = 0;

  auto operator<=>(const RegionBytes&) const = default;
};

// Throws Error (kInvalidArgument) if a placement of a layout with valid ranks reaches into one of
// `slots`, which are sorted and do not overlap.
void check_no_pages_in(const KvLayout& layout, std::span<const RegionBytes> slots);

}  // namespace kvrail

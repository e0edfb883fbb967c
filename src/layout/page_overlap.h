#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "kvrail/ids.h"

namespace kvrail {

// Pages at base, base + stride, ... of one region, each within page_bytes from where it begins, and
// the rows in them: row_bytes at the page's start and at multiples of the pitch after it. Rows
// without gaps are one row of page_bytes, with the stride for its pitch. row_bytes <= pitch,
// page_bytes <= stride, and the end of the last page is within 64 bits.
struct RowSeries {
  RegionId region;
  std::uint64_t base_bytes = 0;
  std::uint64_t stride_bytes = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t pitch_bytes = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t end_bytes = 0;  // of the last page
};

// Two series (indices into `series`) that share a byte, or are not known not to; nullopt if there
// are none. Series whose extents overlap are known to lie apart if they have the same stride and
// their pages do not meet modulo it, or also the same pitch, begin within one pitch, and their rows
// do not meet. O(n log n).
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(std::span<const RowSeries> series);

}  // namespace kvrail

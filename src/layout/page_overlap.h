#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "kvrail/ids.h"

namespace kvrail {

// Pages at base, base + stride, ... of one region, each page_bytes long. page_bytes <= stride, and
// the end of the last page is within 64 bits.
struct PageSeries {
  RegionId region;
  std::uint64_t base_bytes = 0;
  std::uint64_t stride_bytes = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t end_bytes = 0;  // of the last page
};

// Two series (indices into `series`) that share a byte, or nullopt. All have `page_count` pages.
// Series that reach into each other must have the same stride: others count as overlapping.
// O(n log n).
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(std::span<const PageSeries> series,
                                                                std::uint32_t page_count);

}  // namespace kvrail

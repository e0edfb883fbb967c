#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/settings.h"

namespace kvrail::perf {

// Which pages go where: page i is `page_bytes` from source_offsets[i] of the source's memory to
// target_offsets[i] of the target's. Both sides make the same one. Plain data.
struct PagePlan {
  std::uint64_t page_bytes = 0;
  std::uint32_t list_pages = 1;
  std::vector<std::uint64_t> source_offsets;
  std::vector<std::uint64_t> target_offsets;
  std::uint64_t area_bytes = 0;  // of either side's pages, with the gaps

  std::uint32_t pages() const { return static_cast<std::uint32_t>(source_offsets.size()); }
  std::uint64_t bytes() const { return page_bytes * source_offsets.size(); }
  // Where the answer to a message goes, behind the pages.
  std::uint64_t echo_offset() const { return area_bytes; }
  std::uint64_t memory_bytes() const { return area_bytes + page_bytes; }
};

PagePlan make_page_plan(Layout layout, std::uint64_t page_bytes, std::uint32_t pages,
                        std::uint32_t list_pages);

}  // namespace kvrail::perf

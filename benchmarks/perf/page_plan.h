#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "perf/settings.h"

namespace kvrail::perf {

// Which pages go where. Both sides make the same one. Plain data.
struct PagePlan {
  // In the source's and in the target's memory.
  struct Page {
    std::uint64_t source_offset = 0;
    std::uint64_t target_offset = 0;
    std::uint64_t size_bytes = 0;  // of most of them the same
  };
  std::vector<Page> pages;
  // What is submitted together: list i ends before page list_ends[i].
  std::vector<std::uint32_t> list_ends;
  std::uint64_t area_bytes = 0;  // of either side's pages, with the gaps

  std::uint64_t bytes() const;
  std::uint32_t list_pages() const { return list_ends.front(); }
  // Where the answer to a message goes, behind the pages.
  std::uint64_t echo_offset() const { return area_bytes; }
  std::uint64_t memory_bytes() const { return area_bytes + pages.front().size_bytes; }
};

// Pages of one size, in lists of `list_pages`.
PagePlan make_page_plan(Layout layout, std::uint64_t page_bytes, std::uint32_t pages,
                        std::uint32_t list_pages);

// The numbers of `pages` pages on either side, and how many pages there have to be for that.
enum class PlanSide { kSource, kTarget };
std::vector<std::uint32_t> page_numbers(Layout layout, std::uint32_t pages, PlanSide side);
std::uint32_t page_room(Layout layout, std::uint32_t pages);

}  // namespace kvrail::perf

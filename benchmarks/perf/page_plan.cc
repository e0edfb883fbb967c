#include "perf/page_plan.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace kvrail::perf {
namespace {

std::vector<std::uint64_t> offsets(Layout layout, std::uint64_t page_bytes, std::uint32_t pages,
                                   std::uint32_t seed) {
  std::vector<std::uint64_t> slots(pages);
  std::iota(slots.begin(), slots.end(), 0);
  std::mt19937 random(seed);
  if (layout == Layout::kShuffled) std::shuffle(slots.begin(), slots.end(), random);
  const std::uint64_t stride = layout == Layout::kApart ? 2 * page_bytes : page_bytes;
  for (std::uint64_t& slot : slots) slot *= stride;
  return slots;
}

}  // namespace

PagePlan make_page_plan(Layout layout, std::uint64_t page_bytes, std::uint32_t pages,
                        std::uint32_t list_pages) {
  PagePlan plan;
  plan.page_bytes = page_bytes;
  plan.list_pages = std::min(list_pages, pages);
  plan.source_offsets = offsets(layout, page_bytes, pages, 1);
  plan.target_offsets = offsets(layout, page_bytes, pages, 2);
  plan.area_bytes = (layout == Layout::kApart ? 2 : 1) * plan.bytes();
  return plan;
}

}  // namespace kvrail::perf

#include "perf/page_plan.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace kvrail::perf {

std::uint64_t PagePlan::bytes() const {
  std::uint64_t sum = 0;
  for (const Page& page : pages) sum += page.size_bytes;
  return sum;
}

std::vector<std::uint32_t> page_numbers(Layout layout, std::uint32_t pages, PlanSide side) {
  std::vector<std::uint32_t> numbers(pages);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::mt19937 random(side == PlanSide::kSource ? 1 : 2);
  if (layout == Layout::kShuffled) std::shuffle(numbers.begin(), numbers.end(), random);
  if (layout == Layout::kApart) {
    for (std::uint32_t& number : numbers) number *= 2;
  }
  return numbers;
}

std::uint32_t page_room(Layout layout, std::uint32_t pages) {
  return layout == Layout::kApart ? 2 * pages : pages;
}

PagePlan make_page_plan(Layout layout, std::uint64_t page_bytes, std::uint32_t pages,
                        std::uint32_t list_pages) {
  const auto sources = page_numbers(layout, pages, PlanSide::kSource);
  const auto targets = page_numbers(layout, pages, PlanSide::kTarget);
  PagePlan plan;
  for (std::uint32_t page = 0; page < pages; ++page) {
    plan.pages.push_back({sources[page] * page_bytes, targets[page] * page_bytes, page_bytes});
    const bool is_last = page + 1 == pages;
    if ((page + 1) % list_pages == 0 || is_last) plan.list_ends.push_back(page + 1);
  }
  plan.area_bytes = page_room(layout, pages) * page_bytes;
  return plan;
}

}  // namespace kvrail::perf

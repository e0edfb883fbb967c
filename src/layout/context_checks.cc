#include "layout/context_checks.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "layout/checked_math.h"
#include "layout/dp_ranks.h"
#include "layout/rank_checks.h"
#include "layout/refuse.h"

namespace kvrail {
namespace {

// The end of its last slot, from the region's start.
std::uint64_t check_slots(const KvLayout& layout, std::size_t c) {
  const ContextLayout& context = layout.contexts[c];
  const std::string field = fmt::format("contexts[{}]", c);
  check_range(field + ".slot_count", context.slot_count, 1, UINT32_MAX);
  check_range(field + ".slot_bytes", context.slot_bytes, 1, kMaxContextSlotBytes);
  check_range(field + ".slot_stride_bytes", context.slot_stride_bytes, context.slot_bytes,
              UINT64_MAX);
  check_range(field + ".rank", context.rank.value(), 0, layout.ranks.size() - 1);
  const ContextLayout& first = layout.contexts.front();
  check_range(field + ".slot_count, as contexts[0] has it,", context.slot_count, first.slot_count,
              first.slot_count);
  check_range(field + ".slot_bytes, as contexts[0] has them,", context.slot_bytes, first.slot_bytes,
              first.slot_bytes);
  const auto span = checked_product(context.slot_count - 1, context.slot_stride_bytes);
  const auto last = span ? checked_add(context.base_offset_bytes, *span) : std::nullopt;
  const auto end = last ? checked_add(*last, context.slot_bytes) : std::nullopt;
  if (!end) {
    refuse("{}: {} slots of stride {} from {} on exceed 64 bits", field, context.slot_count,
           context.slot_stride_bytes, context.base_offset_bytes);
  }
  return *end;
}

// Each data-parallel rank has contexts on the same ranks of it, at most one on each.
void check_owners(const KvLayout& layout) {
  std::vector<std::uint32_t> contexts(layout.ranks.size(), 0);
  for (const ContextLayout& context : layout.contexts) ++contexts[context.rank.value()];
  const auto members = ranks_by_dp(layout);
  for (std::uint32_t dp = 0; dp < members.size(); ++dp) {
    for (std::size_t i = 0; i < members[dp].size(); ++i) {
      const RankIndex rank = members[dp][i];
      if (contexts[rank.value()] > 1) refuse("rank {} has two contexts", rank.value());
      if (contexts[rank.value()] != contexts[members[0][i].value()]) {
        refuse("rank {} of dp_rank {} and rank {} of dp_rank 0 must both have a context or none",
               rank.value(), dp, members[0][i].value());
      }
    }
  }
}

}  // namespace

void check_contexts(const KvLayout& layout) {
  if (layout.contexts.size() > layout.ranks.size()) {
    refuse("contexts.size is {}, but at most one per rank is served, and there are {}",
           layout.contexts.size(), layout.ranks.size());
  }
  std::vector<RegionBytes> slots;
  for (std::size_t c = 0; c < layout.contexts.size(); ++c) {
    const ContextLayout& context = layout.contexts[c];
    slots.push_back({context.region, context.base_offset_bytes, check_slots(layout, c)});
  }
  check_owners(layout);
  std::sort(slots.begin(), slots.end());
  const auto overlap = std::adjacent_find(slots.begin(), slots.end(),
                                          [](const RegionBytes& a, const RegionBytes& b) {
                                            return a.region == b.region && b.first < a.end;
                                          });
  if (overlap != slots.end()) {
    refuse("two contexts overlap in region {}, from {} on", overlap->region.value(),
           std::next(overlap)->first);
  }
  check_no_pages_in(layout, slots);
}

}  // namespace kvrail

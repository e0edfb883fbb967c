#include "layout/request_pages.h"

#include <algorithm>

#include "layout/refuse.h"
#include "layout/token_pattern.h"

namespace kvrail {
namespace {

// Entries of a page table that hold tokens of `sent`: ranges in order, with gaps between them.
std::vector<TokenRange> entries_of(const CacheGroup& group, TokenRange sent) {
  const TokenRange tokens = crossing(group, sent);
  if (tokens.empty()) {
    return {};
  }
  std::vector<TokenRange> by_rank;
  for (std::uint32_t rank = 0; rank < group.cp_ranks; ++rank) {
    const TokenDeal deal(group.cp_ranks, group.cp_interleave_tokens, rank);
    const std::uint64_t first = deal.count_before(tokens.first);
    const std::uint64_t end = deal.count_before(tokens.end);
    if (first < end) {
      by_rank.push_back({static_cast<std::uint32_t>(first / group.page_tokens),
                         static_cast<std::uint32_t>((end - 1) / group.page_tokens + 1)});
    }
  }
  std::sort(by_rank.begin(), by_rank.end(),
            [](const TokenRange& a, const TokenRange& b) { return a.first < b.first; });
  std::vector<TokenRange> entries;
  for (const TokenRange& range : by_rank) {
    if (!entries.empty() && range.first <= entries.back().end) {
      entries.back().end = std::max(entries.back().end, range.end);
    } else {
      entries.push_back(range);
    }
  }
  return entries;
}

}  // namespace

void check_pages(const KvLayout& layout, TokenRange sent, const RequestPages& pages) {
  if (pages.by_group.size() != layout.groups.size()) {
    refuse("the request has {} page tables, but the layout has {} groups", pages.by_group.size(),
           layout.groups.size());
  }
  const bool has_dp_rank =
      std::any_of(layout.ranks.begin(), layout.ranks.end(),
                  [&](const RankLayout& rank) { return rank.dp_rank == pages.dp_rank; });
  if (!has_dp_rank) {
    refuse("the pages are of dp_rank {}, but no rank of the layout is", pages.dp_rank.value());
  }
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const CacheGroup& group = layout.groups[g];
    const std::vector<PageIndex>& table = pages.by_group[g];
    for (const TokenRange& needed : entries_of(group, sent)) {
      if (table.size() < needed.end) {
        refuse("the page table of group {} has {} pages, but {} tokens in pages of {} need {}", g,
               table.size(), sent.end, group.page_tokens, needed.end);
      }
      for (std::size_t i = needed.first; i < needed.end; ++i) {
        if (table[i].value() >= group.page_count) {
          refuse("entry {} of the page table of group {} is page {}, but the pool has {}", i, g,
                 table[i].value(), group.page_count);
        }
      }
    }
  }
}

void check_context_slot(const KvLayout& layout, ContextSlot slot) {
  if (layout.contexts.empty()) {
    refuse("context slot {} was given, but the layout has none", slot.value());
  }
  if (slot.value() >= layout.contexts.front().slot_count) {
    refuse("context slot {} does not exist: the layout has {}", slot.value(),
           layout.contexts.front().slot_count);
  }
}

std::vector<MissingPages> pages_of(const KvLayout& layout, TokenRange sent,
                                   const RequestPages& pages) {
  std::vector<MissingPages> missing;
  for (std::uint32_t g = 0; g < layout.groups.size(); ++g) {
    MissingPages of_group{CacheGroupIndex{g}, {}};
    const auto table = pages.by_group[g].begin();
    for (const auto& [first, end] : entries_of(layout.groups[g], sent)) {
      of_group.pages.insert(of_group.pages.end(), table + first, table + end);
    }
    if (!of_group.pages.empty()) {
      missing.push_back(std::move(of_group));
    }
  }
  return missing;
}

}  // namespace kvrail

#include "layout/request_pages.h"

#include "layout/refuse.h"

namespace kvrail {
namespace {

// Entries of a page table that `sent` touches.
TokenRange entries_of(TokenRange sent, std::uint32_t page_tokens) {
  if (sent.empty()) {
    return {};
  }
  return {sent.first / page_tokens, (sent.end - 1) / page_tokens + 1};
}

}  // namespace

void check_pages(const KvLayout& layout, TokenRange sent, const RequestPages& pages) {
  if (pages.by_group.size() != layout.groups.size()) {
    refuse("the request has {} page tables, but the layout has {} groups", pages.by_group.size(),
           layout.groups.size());
  }
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const CacheGroup& group = layout.groups[g];
    const std::vector<PageIndex>& table = pages.by_group[g];
    const std::uint32_t needed = entries_of(sent, group.page_tokens).end;
    if (table.size() < needed) {
      refuse("the page table of group {} has {} pages, but {} tokens in pages of {} need {}", g,
             table.size(), sent.end, group.page_tokens, needed);
    }
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (table[i].value() >= group.page_count) {
        refuse("entry {} of the page table of group {} is page {}, but the pool has {}", i, g,
               table[i].value(), group.page_count);
      }
    }
  }
}

void check_context_slot(const KvLayout& layout, ContextSlot slot) {
  if (!layout.context) {
    refuse("context slot {} was given, but the layout has none", slot.value());
  }
  if (slot.value() >= layout.context->slot_count) {
    refuse("context slot {} does not exist: the layout has {}", slot.value(),
           layout.context->slot_count);
  }
}

std::vector<MissingPages> pages_of(const KvLayout& layout, TokenRange sent,
                                   const RequestPages& pages) {
  std::vector<MissingPages> missing;
  for (std::uint32_t g = 0; g < layout.groups.size(); ++g) {
    const auto& [first, end] = entries_of(sent, layout.groups[g].page_tokens);
    if (first < end) {
      const auto table = pages.by_group[g].begin();
      missing.push_back({CacheGroupIndex{g}, std::vector<PageIndex>(table + first, table + end)});
    }
  }
  return missing;
}

}  // namespace kvrail

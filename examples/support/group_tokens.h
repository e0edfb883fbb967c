#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"
#include "support/prompt.h"

namespace mock_engine {

using PageTable = std::vector<kvrail::PageIndex>;

// Stands in page tables for tokens that have no page. Nobody looks at it.
inline constexpr kvrail::PageIndex kNoPage{std::numeric_limits<std::uint32_t>::max()};

inline bool is_state(const kvrail::CacheGroup& group) {
  return group.kind == kvrail::CacheKind::kState;
}

// Tokens that one entry of a page table stands for, over all context-parallel ranks.
inline std::uint32_t entry_tokens(const kvrail::CacheGroup& group) {
  return group.page_tokens * group.cp_ranks;
}

// The prompt's tokens whose rows the group keeps after the prefill: all, those in the window, or,
// for a state, the last one, after which it is taken.
inline kvrail::TokenRange kept_tokens(const kvrail::CacheGroup& group, const Prompt& prompt) {
  const std::uint32_t end = prompt.prefill_tokens();
  const std::uint32_t kept = is_state(group)            ? 1
                             : group.window_tokens == 0 ? end
                                                        : group.window_tokens;
  return {end - std::min(end, kept), end};
}

// The entries [first, end) of the prompt's page table that have a page: those of the tokens kept
// and of the last prompt token, which the decode node computes.
inline kvrail::TokenRange kept_entries(const kvrail::CacheGroup& group, const Prompt& prompt) {
  if (is_state(group)) return {0, 1};
  return {kept_tokens(group, prompt).first / entry_tokens(group),
          prompt.pages(entry_tokens(group))};
}

// The group whose pool is too small for the prompt; none if it fits.
inline const kvrail::CacheGroup* too_small_pool(const std::vector<kvrail::CacheGroup>& groups,
                                                const Prompt& prompt) {
  for (const kvrail::CacheGroup& group : groups) {
    const kvrail::TokenRange entries = kept_entries(group, prompt);
    if (entries.end - entries.first > group.page_count) return &group;
  }
  return nullptr;
}

inline kvrail::TokenRange intersect(kvrail::TokenRange a, kvrail::TokenRange b) {
  return {std::max(a.first, b.first), std::min(a.end, b.end)};
}

}  // namespace mock_engine

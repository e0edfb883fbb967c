#include "support/request_pools.h"

#include <algorithm>
#include <utility>

namespace mock_engine {
namespace {

std::uint32_t slot_count(const kvrail::KvLayout& layout) {
  return layout.contexts.empty() ? 0 : layout.contexts.front().slot_count;
}

}  // namespace

using kvrail::PageIndex;

RequestPools::RequestPools(const kvrail::KvLayout& layout, kvrail::DpRank dp_rank)
    : groups_(layout.groups), dp_rank_(dp_rank), slots_(slot_count(layout)) {
  for (const kvrail::CacheGroup& group : groups_) {
    pools_.emplace_back(group.page_count);
    has_prefix_cache_ &= !is_state(group) && group.window_tokens == 0;
  }
}

std::optional<Holding> RequestPools::take(const Prompt& prompt, bool computes) {
  Holding held;
  held.pages.dp_rank = dp_rank_;
  held.pages.by_group.resize(groups_.size());
  if (has_prefix_cache_) take_cached(prompt, computes, held);
  if (take_rest(prompt, held)) return held;
  release(held);
  return std::nullopt;
}

// Entry after entry, while every group has it.
void RequestPools::take_cached(const Prompt& prompt, bool computes, Holding& held) {
  const std::uint32_t size = entry_tokens(groups_.front());
  const std::uint32_t spare = computes && slots_.page_count() > 0 ? 1 : 0;
  const std::uint32_t tokens = prompt.prefill_tokens() - std::min(prompt.prefill_tokens(), spare);
  for (std::uint32_t entry = 0; entry < Prompt::full_pages(tokens, size); ++entry) {
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      const auto hit = pools_[group].find(prompt.page_key(entry, size));
      if (!hit) {
        while (group-- > 0) {
          pools_[group].release({&held.pages.by_group[group].back(), 1});
          held.pages.by_group[group].pop_back();
        }
        return;
      }
      held.pages.by_group[group].push_back(*hit);
    }
    held.cached_tokens += size;
  }
}

bool RequestPools::take_rest(const Prompt& prompt, Holding& held) {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    PageTable& table = held.pages.by_group[group];
    const kvrail::TokenRange entries = kept_entries(groups_[group], prompt);
    table.resize(std::max<std::size_t>(table.size(), entries.first), kNoPage);
    const auto rest =
        pools_[group].allocate(entries.end - static_cast<std::uint32_t>(table.size()));
    if (!rest) return false;
    table.insert(table.end(), rest->begin(), rest->end());
  }
  if (slots_.page_count() == 0 || prompt.prefill_tokens() == 0) return true;
  const auto slot = slots_.allocate(1);
  if (slot) held.slot = kvrail::ContextSlot(slot->front().value());
  return slot.has_value();
}

void RequestPools::release(const Holding& held) {
  release(held.pages);
  if (held.slot) {
    const PageIndex slot(held.slot->value());
    slots_.release({&slot, 1});
  }
}

void RequestPools::release(const kvrail::RequestPages& pages) {
  for (std::size_t group = 0; group < pages.by_group.size(); ++group) {
    for (const PageIndex page : pages.by_group[group]) {
      if (page != kNoPage) pools_[group].release({&page, 1});
    }
  }
}

kvrail::RequestPages RequestPools::take_neighbours(const Holding& held) {
  kvrail::RequestPages neighbours{std::vector<PageTable>(groups_.size()), dp_rank_};
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const PageIndex next(held.pages.by_group[group].back().value() + 1);
    if (pools_[group].take_free(next)) neighbours.by_group[group].push_back(next);
  }
  return neighbours;
}

std::uint32_t RequestPools::available() const {
  std::uint32_t least = pools_.front().available();
  for (const PagePool& pool : pools_) least = std::min(least, pool.available());
  return least;
}

std::uint32_t RequestPools::pages_free() const {
  std::uint32_t sum = 0;
  for (const PagePool& pool : pools_) sum += pool.available();
  return sum;
}

std::uint32_t RequestPools::page_count() const {
  std::uint32_t sum = 0;
  for (const PagePool& pool : pools_) sum += pool.page_count();
  return sum;
}

bool RequestPools::all_free() const {
  return pages_free() == page_count() && slots_.available() == slots_.page_count();
}

}  // namespace mock_engine

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvrail/kv_layout.h"
#include "support/group_tokens.h"
#include "support/page_pool.h"
#include "support/prompt.h"

namespace mock_engine {

// What a request holds of a data-parallel rank's pools.
struct Holding {
  kvrail::RequestPages pages;               // kNoPage where a token has none
  std::optional<kvrail::ContextSlot> slot;  // if the layout has context slots
  std::uint32_t cached_tokens = 0;  // at the front, in pages that the prefix cache had; whole pages
};

// The pages of one data-parallel rank, a pool per cache group, and its context slots.
//
// A model whose layers all keep all tokens has a prefix cache. One with windows or states has none
// here: what such a layer keeps at the end of a prefix is gone a few tokens later.
// Not thread-safe; the owner guards it.
class RequestPools {
 public:
  RequestPools(const kvrail::KvLayout& layout, kvrail::DpRank dp_rank);

  // Everything that a prompt needs, or none, taking nothing, if a pool has too little. The page of
  // the last prompt token is never a cached one, since the token is not prefilled. With
  // `computes`, at least one token is left to compute if there are context slots: what goes there
  // is computed with it.
  std::optional<Holding> take(const Prompt& prompt, bool computes);

  // The pages of tokens up to `computed_tokens` go to the prefix cache. Calls `published` with
  // group, entry and page for each that is new to it.
  template <class Published>
  void publish(const Prompt& prompt, const Holding& held, std::uint32_t computed_tokens,
               Published published);

  void release(const Holding& held);
  void release(const kvrail::RequestPages& pages);

  // For each group the page behind the holding's last one, taken if it is free.
  kvrail::RequestPages take_neighbours(const Holding& held);

  // Pages that a request may take: of the pool that has the fewest, and over all pools.
  std::uint32_t available() const;
  std::uint32_t pages_free() const;
  std::uint32_t page_count() const;
  bool all_free() const;

  std::size_t group_count() const { return groups_.size(); }
  const PagePool& pool(std::size_t group) const { return pools_.at(group); }
  const PagePool& slots() const { return slots_; }
  kvrail::DpRank dp_rank() const { return dp_rank_; }
  const kvrail::CacheGroup& group(std::size_t group) const { return groups_.at(group); }

 private:
  void take_cached(const Prompt& prompt, bool computes, Holding& held);
  bool take_rest(const Prompt& prompt, Holding& held);

  const std::vector<kvrail::CacheGroup> groups_;
  const kvrail::DpRank dp_rank_;
  bool has_prefix_cache_ = true;
  std::vector<PagePool> pools_;
  PagePool slots_;
};

template <class Published>
void RequestPools::publish(const Prompt& prompt, const Holding& held, std::uint32_t computed_tokens,
                           Published published) {
  if (!has_prefix_cache_) return;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const std::uint32_t size = entry_tokens(groups_[group]);
    const std::uint32_t full = Prompt::full_pages(computed_tokens, size);
    for (std::uint32_t entry = held.cached_tokens / size; entry < full; ++entry) {
      const kvrail::PageIndex page = held.pages.by_group[group][entry];
      if (pools_[group].publish(page, prompt.page_key(entry, size))) published(group, entry, page);
    }
  }
}

}  // namespace mock_engine

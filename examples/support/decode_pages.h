#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "support/request_pools.h"
#include "support/trace.h"

namespace mock_engine {

// The pages of a decode node: each data-parallel rank has its own. Knows what stands in those that
// the prefix caches keep. Threads: one.
class DecodePages {
 public:
  explicit DecodePages(const kvrail::KvLayout& layout);

  // From the data-parallel rank with most pages free; none if it has too few.
  std::optional<Holding> take(const Prompt& prompt);
  // Pages just taken that still hold what a prefix cache gave up for them.
  kvrail::RequestPages forget_evicted(const Holding& held);
  // After the request: its pages that nobody else knows, the others are now cached. Those of a
  // request that failed are never cached.
  kvrail::RequestPages publish(const PromptPtr& prompt, const Holding& held, bool arrived);
  kvrail::RequestPages take_neighbours(const Holding& held) {
    return of(held.pages.dp_rank).take_neighbours(held);
  }
  void release(const Holding& held) { of(held.pages.dp_rank).release(held); }
  void release(const kvrail::RequestPages& pages) { of(pages.dp_rank).release(pages); }

  // What an idle pool holds: pages that are free, and a cached page as part of its prompt.
  struct CachedPage {
    PromptPtr prompt;
    kvrail::TokenRange tokens;
    kvrail::RequestPages pages;  // with this one page of one group
  };
  std::vector<kvrail::RequestPages> free_pages() const;  // by data-parallel rank
  std::vector<std::pair<kvrail::RequestPages, kvrail::ContextSlot>> free_slots() const;
  std::vector<CachedPage> cached_pages() const;

  std::uint32_t pages_free() const;
  std::uint32_t page_count() const;
  bool all_free() const;
  // Pages, one of a tensor of a layer on a rank each, into which the request's tokens are sent.
  std::uint64_t target_pages(const Prompt& prompt, const Holding& held) const;

 private:
  using Place = std::tuple<kvrail::DpRank, std::size_t, kvrail::PageIndex>;  // dp, group, page
  struct Cached {
    PromptPtr prompt;
    std::uint32_t entry = 0;
  };

  RequestPools& of(kvrail::DpRank dp_rank) { return pools_.at(dp_rank.value()); }

  std::vector<RequestPools> pools_;
  std::vector<std::uint64_t> tensors_;  // by group: of all layers on all ranks of one dp_rank
  std::map<Place, Cached> cached_;
};

}  // namespace mock_engine

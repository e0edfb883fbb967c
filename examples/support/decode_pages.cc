#include "support/decode_pages.h"

#include <algorithm>
#include <utility>

namespace mock_engine {

using kvrail::DpRank;
using kvrail::PageIndex;
using kvrail::RequestPages;

DecodePages::DecodePages(const kvrail::KvLayout& layout) : tensors_(layout.groups.size()) {
  for (const kvrail::RankLayout& rank : layout.ranks) {
    if (rank.dp_rank.value() == pools_.size()) pools_.emplace_back(layout, rank.dp_rank);
    if (rank.dp_rank.value() > 0) continue;
    for (std::size_t group = 0; group < tensors_.size(); ++group) {
      tensors_[group] += rank.groups[group].placements.size();
    }
  }
}

std::optional<Holding> DecodePages::take(const Prompt& prompt) {
  return std::max_element(pools_.begin(), pools_.end(),
                          [](const RequestPools& a, const RequestPools& b) {
                            return a.available() < b.available();
                          })
      ->take(prompt, false);
}

RequestPages DecodePages::forget_evicted(const Holding& held) {
  const RequestPools& pools = of(held.pages.dp_rank);
  RequestPages evicted{std::vector<PageTable>(pools.group_count()), held.pages.dp_rank};
  for (std::size_t group = 0; group < pools.group_count(); ++group) {
    const PageTable& table = held.pages.by_group[group];
    for (std::size_t i = held.cached_tokens / entry_tokens(pools.group(group)); i < table.size();
         ++i) {
      if (cached_.erase({held.pages.dp_rank, group, table[i]}) > 0) {
        evicted.by_group[group].push_back(table[i]);
      }
    }
  }
  return evicted;
}

RequestPages DecodePages::publish(const PromptPtr& prompt, const Holding& held, bool arrived) {
  RequestPools& pools = of(held.pages.dp_rank);
  RequestPages mine{held.pages.by_group, held.pages.dp_rank};
  for (std::size_t group = 0; group < pools.group_count(); ++group) {
    PageTable& table = mine.by_group[group];
    const auto cached = held.cached_tokens / entry_tokens(pools.group(group));
    std::fill_n(table.begin(), cached, kNoPage);
  }
  if (arrived) {
    pools.publish(*prompt, held, prompt->prefill_tokens(),
                  [&](std::size_t group, std::uint32_t entry, PageIndex page) {
                    cached_[{mine.dp_rank, group, page}] = {prompt, entry};
                    mine.by_group[group][entry] = kNoPage;
                  });
  }
  return mine;
}

std::vector<RequestPages> DecodePages::free_pages() const {
  std::vector<RequestPages> all;
  for (const RequestPools& pools : pools_) {
    RequestPages& free = all.emplace_back();
    free.dp_rank = pools.dp_rank();
    for (std::size_t group = 0; group < pools.group_count(); ++group) {
      PageTable& table = free.by_group.emplace_back();
      for (std::uint32_t page = 0; page < pools.pool(group).page_count(); ++page) {
        if (pools.pool(group).is_free(PageIndex(page))) table.emplace_back(page);
      }
    }
  }
  return all;
}

std::vector<std::pair<RequestPages, kvrail::ContextSlot>> DecodePages::free_slots() const {
  std::vector<std::pair<RequestPages, kvrail::ContextSlot>> all;
  for (const RequestPools& pools : pools_) {
    const RequestPages none{std::vector<PageTable>(tensors_.size()), pools.dp_rank()};
    for (std::uint32_t slot = 0; slot < pools.slots().page_count(); ++slot) {
      if (pools.slots().is_free(PageIndex(slot))) all.emplace_back(none, slot);
    }
  }
  return all;
}

std::vector<DecodePages::CachedPage> DecodePages::cached_pages() const {
  std::vector<CachedPage> all;
  for (const auto& [place, cached] : cached_) {
    const auto& [dp_rank, group, page] = place;
    const std::uint32_t size = entry_tokens(pools_[dp_rank.value()].group(group));
    CachedPage& found = all.emplace_back();
    found.prompt = cached.prompt;
    found.tokens = {cached.entry * size, (cached.entry + 1) * size};
    found.pages.dp_rank = dp_rank;
    found.pages.by_group.resize(tensors_.size());
    found.pages.by_group[group].resize(cached.entry + 1, page);
  }
  return all;
}

std::uint64_t DecodePages::target_pages(const Prompt& prompt, const Holding& held) const {
  const RequestPools& pools = pools_.at(held.pages.dp_rank.value());
  std::uint64_t sum = 0;
  for (std::size_t group = 0; group < pools.group_count(); ++group) {
    const std::uint32_t size = entry_tokens(pools.group(group));
    const kvrail::TokenRange sent = intersect(kept_tokens(pools.group(group), prompt),
                                              {held.cached_tokens, prompt.prefill_tokens()});
    if (sent.empty()) continue;
    const std::uint32_t entries =
        is_state(pools.group(group)) ? 1 : (sent.end + size - 1) / size - sent.first / size;
    sum += entries * tensors_[group];
  }
  return sum;
}

std::uint32_t DecodePages::pages_free() const {
  std::uint32_t sum = 0;
  for (const RequestPools& pools : pools_) sum += pools.pages_free();
  return sum;
}

std::uint32_t DecodePages::page_count() const {
  std::uint32_t sum = 0;
  for (const RequestPools& pools : pools_) sum += pools.page_count();
  return sum;
}

bool DecodePages::all_free() const {
  return std::all_of(pools_.begin(), pools_.end(), [](const auto& p) { return p.all_free(); });
}

}  // namespace mock_engine

#pragma once

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "kvrail/kv_builders.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

// Two layers, four heads of four 16-bit elements, pages of four tokens, eight pages, one rank: a
// head of a token has 8 bytes, a head of a page 32, a page of one tensor 128, a layer 2,048.
inline KvCacheOptions small_options() {
  KvCacheOptions options;
  options.model.name = "small";
  options.model.layers = 2;
  options.model.kv_heads = 4;
  options.model.head_size = 4;
  options.model.hidden_size = 16;
  options.page_tokens = 4;
  options.page_count = 8;
  return options;
}

// Rank r has region first_region + r and device group r.
inline KvLayout layout_of(const KvCacheOptions& options, std::uint32_t first_region = 0) {
  std::vector<RankMemory> ranks;
  for (std::uint32_t r = 0; r < rank_count(options); ++r) {
    ranks.push_back({RegionId{first_region + r}, DeviceGroupId{static_cast<std::uint16_t>(r)}});
  }
  return make_kv_layout(options, ranks);
}

// The first of the ranks that hold what a path sends.
inline SourceChoice first_sources(const TransferPlan& plan, TokenRange sent) {
  return plan.choose_sources(DpRank{0}, sent,
                             [](std::span<const RankIndex>, std::uint64_t) { return 0; });
}

inline RequestPages one_table(std::initializer_list<std::uint32_t> pages) {
  RequestPages result;
  result.by_group.emplace_back();
  for (const std::uint32_t page : pages) {
    result.by_group.back().push_back(PageIndex{page});
  }
  return result;
}

}  // namespace kvrail

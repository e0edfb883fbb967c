#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kvrail/transfer_plan.h"
#include "layout/token_deal.h"

namespace kvrail {

// The tokens of a group that cross when `sent` of the prompt do: the end of it for a window, the
// state as one token 0.
TokenRange crossing(const CacheGroup& group, TokenRange sent);

// Those of them that cross when `finished` is computed.
TokenRange crossing_now(const CacheGroup& group, TokenRange sent, TokenRange finished);

// Which tokens two ranks have in common, and how both cut them into pages.
//
// Where both sides deal the tokens alike, they are numbered among those of the cp_rank, and so
// follow each other on both sides. Otherwise they are numbered by their position.
struct TokenPattern {
  // nullopt if the ranks have no token in common.
  static std::optional<TokenPattern> of(const CacheGroup& source, std::uint32_t source_cp_rank,
                                        const CacheGroup& target, std::uint32_t target_cp_rank);

  // Positions as the pattern numbers them.
  TokenRange numbered(TokenRange positions) const {
    return {static_cast<std::uint32_t>(common.count_before(positions.first)),
            static_cast<std::uint32_t>(common.count_before(positions.end))};
  }

  std::uint32_t source_page_tokens = 1;
  std::uint32_t target_page_tokens = 1;
  TokenDeal common;
  TokenDeal source;
  TokenDeal target;
};

// How often parts of each length occur.
using PartLengths = std::vector<std::pair<std::uint32_t, std::uint64_t>>;

// The parts of TokenParts for `sent`, positions, counted without walking over all of them.
PartLengths part_lengths(const TokenPattern& pattern, TokenRange sent);

}  // namespace kvrail

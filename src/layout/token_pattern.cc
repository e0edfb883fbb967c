#include "layout/token_pattern.h"

#include <numeric>

#include "layout/checked_math.h"
#include "layout/token_parts.h"

namespace kvrail {
namespace {

// Tokens after which parts come again: whole rounds of both deals and whole pages of both sides. 0
// if that is too far to be of use.
std::uint64_t period_of(const TokenPattern& pattern) {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 32;
  std::uint64_t period = 1;
  const auto include = [&](const TokenDeal& deal, std::uint64_t page_tokens) {
    // Blocks that fill pages exactly, on every rank of the deal.
    const std::uint64_t own =
        deal.deals() ? std::lcm(page_tokens, deal.interleave_tokens()) : page_tokens;
    const auto round = checked_product(own, deal.ranks());
    const auto both =
        round ? checked_product(period / std::gcd(period, *round), *round) : std::nullopt;
    period = both && *both < kFar ? *both : 0;
    return period != 0;
  };
  return include(pattern.source, pattern.source_page_tokens) &&
                 include(pattern.target, pattern.target_page_tokens)
             ? period
             : 0;
}

void count(PartLengths& lengths, std::uint32_t tokens, std::uint64_t times) {
  const auto known = std::find_if(lengths.begin(), lengths.end(),
                                  [&](const auto& entry) { return entry.first == tokens; });
  if (known == lengths.end()) {
    lengths.emplace_back(tokens, times);
  } else {
    known->second += times;
  }
}

// Parts that begin in [first, end), which cut no part of `sent` but at its ends.
void count_parts(const TokenPattern& pattern, TokenRange sent, std::uint64_t first,
                 std::uint64_t end, std::uint64_t times, PartLengths& lengths) {
  if (first >= end) return;
  for (TokenParts part(pattern, sent, static_cast<std::uint32_t>(first)); part.first() < end;
       part.next()) {
    count(lengths, part.tokens(), times);
  }
}

}  // namespace

TokenRange crossing(const CacheGroup& group, TokenRange sent) {
  if (sent.empty()) return {};
  if (group.kind == CacheKind::kState) return {0, 1};
  if (group.window_tokens != 0 && sent.end - sent.first > group.window_tokens) {
    return {sent.end - group.window_tokens, sent.end};
  }
  return sent;
}

TokenRange crossing_now(const CacheGroup& group, TokenRange sent, TokenRange finished) {
  const TokenRange all = crossing(group, sent);
  if (group.kind == CacheKind::kState) {
    return finished.first < sent.end && sent.end <= finished.end ? all : TokenRange{};
  }
  return {std::max(all.first, finished.first), std::min(all.end, finished.end)};
}

std::optional<TokenPattern> TokenPattern::of(const CacheGroup& source, std::uint32_t source_cp_rank,
                                             const CacheGroup& target,
                                             std::uint32_t target_cp_rank) {
  TokenPattern pattern;
  pattern.source_page_tokens = source.page_tokens;
  pattern.target_page_tokens = target.page_tokens;
  const TokenDeal from(source.cp_ranks, source.cp_interleave_tokens, source_cp_rank);
  const TokenDeal to(target.cp_ranks, target.cp_interleave_tokens, target_cp_rank);
  if (from.ranks() == to.ranks() && from.interleave_tokens() == to.interleave_tokens()) {
    if (from.deals() && source_cp_rank != target_cp_rank) return std::nullopt;
    pattern.common = from;
  } else {
    if (!from.meets(to)) return std::nullopt;
    pattern.source = from;
    pattern.target = to;
  }
  return pattern;
}

PartLengths part_lengths(const TokenPattern& pattern, TokenRange sent) {
  const TokenRange range = pattern.numbered(sent);
  PartLengths lengths;
  const std::uint64_t period = period_of(pattern);
  const std::uint64_t first = range.first;
  const std::uint64_t end = range.end;
  // Whole periods lie between these.
  const std::uint64_t low = period == 0 ? end : (first + period - 1) / period * period;
  const std::uint64_t periods = low < end ? (end - low) / period : 0;
  if (periods < 2) {
    count_parts(pattern, range, first, end, 1, lengths);
    return lengths;
  }
  const std::uint64_t high = low + periods * period;
  count_parts(pattern, range, first, low, 1, lengths);
  count_parts(pattern, range, low, low + period, periods, lengths);
  count_parts(pattern, range, high, end, 1, lengths);
  return lengths;
}

}  // namespace kvrail

#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace kvrail {

// The tokens of one context-parallel rank: those at positions t with t / interleave % ranks ==
// rank, in order. By default all tokens.
class TokenDeal {
 public:
  TokenDeal() = default;
  TokenDeal(std::uint32_t ranks, std::uint32_t interleave_tokens, std::uint32_t rank)
      : ranks_(ranks), interleave_(ranks == 1 ? 1 : interleave_tokens), rank_(rank) {}

  bool deals() const { return ranks_ > 1; }
  std::uint32_t ranks() const { return ranks_; }
  std::uint32_t interleave_tokens() const { return interleave_; }

  // How many of its tokens come before position t: the number of the first that does not.
  std::uint64_t count_before(std::uint64_t t) const {
    if (!deals()) return t;
    const std::uint64_t round = interleave_ * std::uint64_t{ranks_};
    const std::uint64_t before = interleave_ * std::uint64_t{rank_};
    const std::uint64_t rest = t % round;
    const std::uint64_t in_round = rest <= before ? 0 : std::min(rest - before, interleave_);
    return t / round * interleave_ + in_round;
  }

  // The first position from t on that is one of its.
  std::uint64_t next(std::uint64_t t) const {
    if (!deals() || holds(t)) return t;
    const std::uint64_t round = interleave_ * std::uint64_t{ranks_};
    const std::uint64_t start = t / round * round + interleave_ * std::uint64_t{rank_};
    return start >= t ? start : start + round;
  }

  bool holds(std::uint64_t t) const { return !deals() || t / interleave_ % ranks_ == rank_; }

  // Whether any position is one of both. Positions of two deals differ by a multiple of what their
  // rounds have in common, plus up to a block either way.
  bool meets(const TokenDeal& other) const {
    if (!deals() || !other.deals()) return true;
    const std::uint64_t common = std::gcd(interleave_ * ranks_, other.interleave_ * other.ranks_);
    const std::uint64_t apart =
        (interleave_ * rank_ % common + common - other.interleave_ * other.rank_ % common) % common;
    return apart < other.interleave_ || common - apart < interleave_;
  }

  // The positions around t, one of its, that follow each other: [block_first, block_end).
  std::uint64_t block_first(std::uint64_t t) const { return deals() ? t - t % interleave_ : 0; }
  std::uint64_t block_end(std::uint64_t t) const {
    return deals() ? t - t % interleave_ + interleave_ : UINT64_MAX;
  }

 private:
  std::uint32_t ranks_ = 1;
  std::uint64_t interleave_ = 1;
  std::uint32_t rank_ = 0;
};

}  // namespace kvrail

#pragma once

#include <algorithm>
#include <cstdint>

#include "kvrail/transfer_plan.h"
#include "layout/token_pattern.h"

namespace kvrail {

// Walks over the parts into which the pages of both sides, and the blocks in which they deal tokens
// out, cut the tokens `sent`: each lies in one source page and one target page, and its tokens
// follow each other in both. Tokens are as the pattern numbers them.
class TokenParts {
 public:
  // Begins with the part that holds `from`, which is in `sent`, or with the first one after it if
  // the ranks do not have it in common.
  TokenParts(const TokenPattern& pattern, TokenRange sent, std::uint32_t from)
      : pattern_(pattern), sent_end_(sent.end) {
    std::uint64_t start = from;
    if (pattern_.source.holds(from) && pattern_.target.holds(from)) {
      const std::uint64_t source_slot =
          pattern_.source.count_before(from) % pattern_.source_page_tokens;
      const std::uint64_t target_slot =
          pattern_.target.count_before(from) % pattern_.target_page_tokens;
      const std::uint64_t before =
          std::min({std::min(source_slot, target_slot), from - pattern_.source.block_first(from),
                    from - pattern_.target.block_first(from), std::uint64_t{from} - sent.first});
      start -= before;
    }
    locate(start);
  }

  bool at_end() const { return first_ >= sent_end_; }

  // Tokens [first, first + tokens).
  std::uint64_t first() const { return first_; }
  std::uint32_t tokens() const { return tokens_; }
  // Where they are: the entry of the page table and the slot of the first token in that page.
  std::uint32_t source_entry() const { return source_entry_; }
  std::uint32_t target_entry() const { return target_entry_; }
  std::uint32_t source_slot() const { return source_slot_; }
  std::uint32_t target_slot() const { return target_slot_; }

  void next() {
    if (pattern_.source.deals() || pattern_.target.deals()) {
      locate(first_ + tokens_);
      return;
    }
    first_ += tokens_;
    advance(source_entry_, source_slot_, pattern_.source_page_tokens);
    advance(target_entry_, target_slot_, pattern_.target_page_tokens);
    measure();
  }

 private:
  // The part that begins at the first common token from `t` on.
  void locate(std::uint64_t t) {
    for (;;) {
      t = pattern_.source.next(t);
      const std::uint64_t both = pattern_.target.next(t);
      if (both == t || t >= sent_end_) break;
      t = both;
    }
    first_ = t;
    place(pattern_.source.count_before(t), pattern_.source_page_tokens, source_entry_,
          source_slot_);
    place(pattern_.target.count_before(t), pattern_.target_page_tokens, target_entry_,
          target_slot_);
    block_end_ = std::min(pattern_.source.block_end(t), pattern_.target.block_end(t));
    measure();
  }
  static void place(std::uint64_t number, std::uint32_t page_tokens, std::uint32_t& entry,
                    std::uint32_t& slot) {
    entry = static_cast<std::uint32_t>(number / page_tokens);
    slot = static_cast<std::uint32_t>(number % page_tokens);
  }
  void advance(std::uint32_t& entry, std::uint32_t& slot, std::uint32_t page_tokens) const {
    slot += tokens_;
    if (slot == page_tokens) {
      slot = 0;
      ++entry;
    }
  }
  void measure() {
    const std::uint64_t left = at_end() ? 0 : std::min(sent_end_, block_end_) - first_;
    tokens_ = static_cast<std::uint32_t>(
        std::min<std::uint64_t>({left, pattern_.source_page_tokens - source_slot_,
                                 pattern_.target_page_tokens - target_slot_}));
  }

  const TokenPattern& pattern_;
  std::uint64_t sent_end_;
  std::uint64_t first_ = 0;
  std::uint64_t block_end_ = 0;
  std::uint32_t source_entry_ = 0;
  std::uint32_t target_entry_ = 0;
  std::uint32_t source_slot_ = 0;
  std::uint32_t target_slot_ = 0;
  std::uint32_t tokens_ = 0;
};

}  // namespace kvrail

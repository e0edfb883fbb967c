#pragma once

#include <algorithm>
#include <cstdint>

#include "kvrail/transfer_plan.h"

namespace kvrail {

// Walks over the parts into which the pages of both sides cut the tokens `sent`: each lies in one
// source page and one target page.
class TokenParts {
 public:
  // Begins with the part that holds token `from`, which is in `sent`.
  TokenParts(TokenRange sent, std::uint32_t from, std::uint32_t source_page_tokens,
             std::uint32_t target_page_tokens)
      : sent_end_(sent.end),
        source_page_tokens_(source_page_tokens),
        target_page_tokens_(target_page_tokens) {
    first_ =
        std::max({sent.first, from - from % source_page_tokens, from - from % target_page_tokens});
    source_entry_ = static_cast<std::uint32_t>(first_ / source_page_tokens);
    target_entry_ = static_cast<std::uint32_t>(first_ / target_page_tokens);
    source_slot_ = static_cast<std::uint32_t>(first_ % source_page_tokens);
    target_slot_ = static_cast<std::uint32_t>(first_ % target_page_tokens);
    measure();
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
    first_ += tokens_;
    advance(source_entry_, source_slot_, source_page_tokens_);
    advance(target_entry_, target_slot_, target_page_tokens_);
    measure();
  }

 private:
  void advance(std::uint32_t& entry, std::uint32_t& slot, std::uint32_t page_tokens) const {
    slot += tokens_;
    if (slot == page_tokens) {
      slot = 0;
      ++entry;
    }
  }
  void measure() {
    const std::uint64_t left = at_end() ? 0 : sent_end_ - first_;
    tokens_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        {left, source_page_tokens_ - source_slot_, target_page_tokens_ - target_slot_}));
  }

  std::uint64_t first_ = 0;
  std::uint64_t sent_end_;
  std::uint32_t source_page_tokens_;
  std::uint32_t target_page_tokens_;
  std::uint32_t source_entry_ = 0;
  std::uint32_t target_entry_ = 0;
  std::uint32_t source_slot_ = 0;
  std::uint32_t target_slot_ = 0;
  std::uint32_t tokens_ = 0;
};

}  // namespace kvrail

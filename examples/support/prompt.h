#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/mix.h"

namespace mock_engine {

// One request: how long its prompt is and what stands in it. The text itself is not needed: equal
// runs of block ids at the front mean equal text there.
//
// Invariant: the blocks cover the prompt, and block_keys()[i] speaks for all tokens up to the end
// of block i. Immutable, so any thread may read it.
class Prompt {
 public:
  // `block_tokens` per entry of `block_ids`; both at least 1. Throws std::invalid_argument, saying
  // what is wrong.
  Prompt(std::string external_id, std::uint32_t prompt_tokens, std::uint32_t block_tokens,
         std::vector<std::uint64_t> block_ids);

  // What travels with a kvrail request, as JSON, and back. decode_payload throws
  // std::invalid_argument on bytes that do not describe a prompt of `prompt_tokens`.
  std::vector<std::byte> encode_payload() const;
  static Prompt decode_payload(std::string external_id, std::uint32_t prompt_tokens,
                               std::span<const std::byte> payload);

  const std::string& external_id() const { return external_id_; }
  std::uint32_t prompt_tokens() const { return prompt_tokens_; }
  // The last prompt token is the decode node's to compute.
  std::uint32_t prefill_tokens() const { return prompt_tokens_ - 1; }

  std::uint32_t pages(std::uint32_t page_tokens) const {
    return (prompt_tokens_ + page_tokens - 1) / page_tokens;
  }

  // Equal for two prompts exactly where all tokens up to and with `token` are equal.
  std::uint64_t token_key(std::uint32_t token) const {
    return mix64(block_keys_[token / block_tokens_] + token);
  }
  // Names the content of the page whose last token is (page + 1) * page_tokens - 1.
  std::uint64_t page_key(std::uint32_t page, std::uint32_t page_tokens) const {
    return token_key((page + 1) * page_tokens - 1);
  }
  // Pages that are full after `tokens` tokens and so fit for a prefix cache.
  static std::uint32_t full_pages(std::uint32_t tokens, std::uint32_t page_tokens) {
    return tokens / page_tokens;
  }

 private:
  std::string external_id_;
  std::uint32_t prompt_tokens_;
  std::uint32_t block_tokens_;
  std::vector<std::uint64_t> block_ids_;
  std::vector<std::uint64_t> block_keys_;
};

}  // namespace mock_engine

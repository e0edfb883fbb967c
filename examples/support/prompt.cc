#include "support/prompt.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace mock_engine {

Prompt::Prompt(std::string external_id, std::uint32_t prompt_tokens, std::uint32_t block_tokens,
               std::vector<std::uint64_t> block_ids)
    : external_id_(std::move(external_id)),
      prompt_tokens_(prompt_tokens),
      block_tokens_(block_tokens),
      block_ids_(std::move(block_ids)) {
  if (prompt_tokens_ == 0 || block_tokens_ == 0) {
    throw std::invalid_argument("a prompt and its blocks have at least 1 token");
  }
  const std::uint64_t covered = std::uint64_t{block_ids_.size()} * block_tokens_;
  if (covered < prompt_tokens_) {
    throw std::invalid_argument(
        fmt::format("{} hash ids of {} tokens cover {} tokens, but the prompt has {}",
                    block_ids_.size(), block_tokens_, covered, prompt_tokens_));
  }
  std::uint64_t key = mix64(block_tokens_);
  for (const std::uint64_t id : block_ids_) {
    key = mix64(key ^ mix64(id));
    block_keys_.push_back(key);
  }
}

std::vector<std::byte> Prompt::encode_payload() const {
  const std::string text =
      nlohmann::json{{"block_tokens", block_tokens_}, {"hash_ids", block_ids_}}.dump();
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Prompt Prompt::decode_payload(std::string external_id, std::uint32_t prompt_tokens,
                              std::span<const std::byte> payload) {
  try {
    const auto* text = reinterpret_cast<const char*>(payload.data());
    const auto json = nlohmann::json::parse(text, text + payload.size());
    return Prompt(std::move(external_id), prompt_tokens, json.at("block_tokens"),
                  json.at("hash_ids").get<std::vector<std::uint64_t>>());
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(fmt::format("the payload is not a prompt: {}", error.what()));
  }
}

}  // namespace mock_engine

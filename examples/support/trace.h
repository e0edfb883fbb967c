#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "support/prompt.h"

namespace mock_engine {

using PromptPtr = std::shared_ptr<const Prompt>;

struct TraceOptions {
  std::uint32_t block_tokens = 512;  // tokens that one hash id speaks for
  std::uint32_t scale = 1;           // all token counts are divided by it, rounded up
  std::uint32_t limit = 0;           // requests read from the front; 0: all
};

// Reads requests as JSON lines with timestamp, input_length, output_length and hash_ids. They are
// named "r0", "r1", ... in their order. Throws std::runtime_error that names the source, the line
// and what is wrong with it.
std::vector<PromptPtr> read_trace(const std::filesystem::path& path, const TraceOptions& options);
std::vector<PromptPtr> read_trace(std::istream& lines, const std::string& source,
                                  const TraceOptions& options);

// Requests of our own, from half to one and a half times `mean_tokens` long. Always the same ones.
// Every second one begins with the same quarter of `mean_tokens`, as under one system prompt.
std::vector<PromptPtr> make_prompts(std::uint32_t count, std::uint32_t mean_tokens);

// The prompts that one of `of` nodes takes: those whose number leaves the remainder `index`.
std::vector<PromptPtr> slice(const std::vector<PromptPtr>& prompts, std::uint32_t index,
                             std::uint32_t of);

// The prefill node that serves the request of this number: each decode node takes them in turn.
inline std::uint32_t route(std::uint32_t number, std::uint32_t decodes, std::uint32_t prefills) {
  return (number / decodes + number % decodes) % prefills;
}

}  // namespace mock_engine

#include "support/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace mock_engine {
namespace {

std::uint32_t divided(std::uint64_t tokens, std::uint32_t scale) {
  return static_cast<std::uint32_t>((tokens + scale - 1) / scale);
}

// A count of tokens, from 1 to 2^31.
std::uint64_t token_count(const nlohmann::json& request, const char* key) {
  if (!request.contains(key)) throw std::invalid_argument(fmt::format("\"{}\" is missing", key));
  const nlohmann::json& value = request[key];
  if (!value.is_number_unsigned() || value < 1 || value > (1u << 31)) {
    throw std::invalid_argument(
        fmt::format("\"{}\" must be a whole number from 1, not {}", key, value.dump()));
  }
  return value;
}

PromptPtr parse_request(const std::string& line, std::size_t number, const TraceOptions& options) {
  const auto request = nlohmann::json::parse(line);
  if (!request.is_object()) throw std::invalid_argument("a request is a JSON object");
  const std::uint64_t tokens = token_count(request, "input_length");
  if (!request.contains("hash_ids")) throw std::invalid_argument("\"hash_ids\" is missing");
  return std::make_shared<const Prompt>(fmt::format("r{}", number), divided(tokens, options.scale),
                                        divided(options.block_tokens, options.scale),
                                        request["hash_ids"].get<std::vector<std::uint64_t>>());
}

}  // namespace

std::vector<PromptPtr> read_trace(std::istream& lines, const std::string& source,
                                  const TraceOptions& options) {
  std::vector<PromptPtr> prompts;
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (options.limit > 0 && prompts.size() == options.limit) break;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      prompts.push_back(parse_request(line, prompts.size(), options));
    } catch (const nlohmann::json::parse_error&) {
      throw std::runtime_error(
          fmt::format("--trace: {} line {} is not JSON: '{}'; a trace has one JSON object with "
                      "input_length and hash_ids per line",
                      source, number, line.substr(0, 40)));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format(
          "--trace: {} line {}: {} (--trace-block-tokens says how many tokens one hash id covers)",
          source, number, error.what()));
    }
  }
  if (prompts.empty()) {
    throw std::runtime_error(fmt::format("--trace: {} holds no request", source));
  }
  return prompts;
}

std::vector<PromptPtr> read_trace(const std::filesystem::path& path, const TraceOptions& options) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error(
        fmt::format("--trace: cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  return read_trace(file, path.string(), options);
}

std::vector<PromptPtr> make_prompts(std::uint32_t count, std::uint32_t mean_tokens) {
  const std::uint32_t block_tokens = std::max(1u, mean_tokens / 4);
  std::vector<PromptPtr> prompts;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t dice = mix64(i);
    const auto tokens = static_cast<std::uint32_t>(
        std::max<std::uint64_t>(1, mean_tokens / 2 + dice % mean_tokens));
    std::vector<std::uint64_t> blocks;
    for (std::uint32_t covered = 0; covered < tokens; covered += block_tokens) {
      const bool shared = covered == 0 && i % 2 == 1;
      blocks.push_back(shared ? 0 : mix64(dice + covered));
    }
    prompts.push_back(
        std::make_shared<const Prompt>(fmt::format("r{}", i), tokens, block_tokens, blocks));
  }
  return prompts;
}

std::vector<PromptPtr> slice(const std::vector<PromptPtr>& prompts, std::uint32_t index,
                             std::uint32_t of) {
  std::vector<PromptPtr> mine;
  for (std::size_t i = index; i < prompts.size(); i += of) mine.push_back(prompts[i]);
  return mine;
}

}  // namespace mock_engine

#include <span>
#include <string_view>

#include "fuzz/fuzz_target.h"
#include "layout/sample_configs.h"

namespace kvrail {

std::vector<std::vector<std::byte>> fuzz_seeds() {
  std::vector<std::vector<std::byte>> seeds;
  for (const std::string_view config :
       {kLlama3Config, kQwen3Config, kMistralConfig, kDeepSeekR1Config, kDeepSeekV32Config,
        kGptOssConfig, kGemma3Config, kQwen3NextConfig, kNemotronConfig}) {
    const auto bytes = std::as_bytes(std::span(config));
    seeds.emplace_back(bytes.begin(), bytes.end());
  }
  return seeds;
}

}  // namespace kvrail

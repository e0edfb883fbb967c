#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "support/options.h"

namespace mock_engine {

// What is said for both roles or for one of them.
struct ShardingTexts {
  std::uint32_t tensor_parallel = 1;
  std::uint32_t page_tokens = 64;
  std::string order = "hnd";
  std::string decode_order;
};

void add_sharding_options(CLI::App& app, Options& options, ShardingTexts& both);
// After parsing: what was said for both roles holds for a role that nothing else was said for.
void resolve(const ShardingTexts& both, Options& options);

}  // namespace mock_engine

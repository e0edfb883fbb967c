#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/kv_layout.h"
#include "support/trace.h"

namespace mock_engine {

enum class Role { kLaunch, kPrefill, kDecode, kRank };

// How the nodes of one role shard, page and order their caches.
struct Sharding {
  std::uint32_t tensor_parallel = 0;
  std::uint32_t pipeline_parallel = 1;
  std::uint32_t context_parallel = 1;
  std::uint32_t data_parallel = 1;
  std::uint32_t page_tokens = 0;
  kvrail::PageOrder order = kvrail::PageOrder::kHnd;
};

// What prefill_decode was told on its command line; the defaults are those of --help.
struct Options {
  Role role = Role::kLaunch;
  std::uint32_t prefills = 1;
  std::uint32_t decodes = 1;
  std::string listen = "127.0.0.1:0";
  bool listen_beyond_loopback = false;
  std::string key_file;  // empty: none
  std::vector<std::string> connect;
  // INDEX/OF: which of the nodes of its role this one is.
  std::uint32_t index = 0;
  std::uint32_t of = 1;

  std::string model = "Qwen3-Coder-480B";
  Sharding prefill;
  Sharding decode;
  std::uint32_t device_groups = 1;
  std::optional<std::uint64_t> context_bytes;  // of a slot; 0: none; unset: as the model needs
  std::uint32_t pool_pages = 0;                // 0: as many as memory_gib holds
  double memory_gib = 4;                       // of all nodes together where there is a launcher

  std::optional<std::uint32_t> requests;
  std::uint32_t prompt_tokens = 1024;
  std::string trace;
  std::uint32_t trace_scale = 1;
  std::uint32_t trace_block_tokens = 512;
  bool prefill_first = false;
  std::uint32_t concurrency = 8;

  std::string provider = "auto";
  std::string bind_address = "127.0.0.1";
  std::uint16_t rails = 1;
  std::uint32_t chunk_tokens = 1000;
  double layer_ms = 8;

  bool json = false;
};

// None after --help, which is printed. Throws CLI::Error, and std::invalid_argument on options that
// do not go together.
std::optional<Options> parse_options(int argc, const char* const* argv);

// The requests that the options ask for, of all nodes together. Throws as read_trace does.
std::vector<PromptPtr> requested_prompts(const Options& options);

}  // namespace mock_engine

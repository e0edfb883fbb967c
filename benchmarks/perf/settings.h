#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/ids.h"

namespace kvrail::perf {

using Json = nlohmann::json;

// How the pages of a list lie in the memory of both sides.
enum class Layout {
  kNeighbouring,  // one after the other, in the same order on both sides
  kApart,         // in the same order, with the room of one page between each two
  kShuffled,      // without gaps, in an order of its own on each side
};
Layout parse_layout(const std::string& text);
std::string to_string(Layout layout);

// "4K", "1M", "512", "1G", in bytes. Throws Error (kInvalidArgument).
std::uint64_t parse_bytes(const std::string& text);
// The shortest such text.
std::string bytes_text(std::uint64_t bytes);

// What is measured and how; the source tells the target. The defaults are those of the command
// line.
struct Settings {
  std::vector<std::string> tests = {"write"};
  std::string provider = "tcp";
  std::string nic;  // libfabric domain name; empty: the provider's first
  std::vector<std::uint64_t> page_bytes = {4096, 65536, 1048576};
  std::uint32_t pages = 1024;
  std::uint32_t list_pages = 256;  // pages of one submission
  std::uint32_t depth = 16;        // submissions outstanding
  std::uint16_t rails = 1;
  // As in TransferEngineOptions.
  std::uint32_t queue_depth = 0;
  std::uint32_t receive_credit = 1024;
  std::uint64_t max_write_bytes = 0;
  std::uint32_t spin_us = 200;
  Layout layout = Layout::kShuffled;
  // Of the test "kv".
  std::string model = "qwen3-coder";
  std::string model_config;  // text of a config.json; empty: a built-in model
  std::uint32_t tokens = 512;
  std::uint32_t chunk_tokens = 0;  // of one forward pass; 0: all
  std::uint32_t page_tokens = 64;
  std::uint32_t tp_prefill = 1;
  std::uint32_t tp_decode = 1;
  std::string watcher = "thread";  // of the source's layer counters: thread or worker
  std::uint32_t rounds = 5;
  std::uint32_t round_ms = 200;   // least time of a round
  std::uint32_t messages = 2000;  // of a round of the test "message"
  bool baseline = false;
  std::uint64_t max_memory_bytes = std::uint64_t{256} << 20;  // of the pages of one size
  // The GPU whose memory the target's pages lie in; none: the host's.
  std::optional<CudaDeviceId> target_device;

  // Throws Error (kInvalidArgument) for a value outside its range; the text names the option.
  void check() const;
};

Json to_json(const Settings& settings);
// Throws Error (kMalformed).
Settings settings_from_json(const Json& json);

// What only one process needs to know.
struct LocalSettings {
  std::string bind_address = "127.0.0.1";
  int core = -1;       // that this process runs on; -1: any
  int pass_core = -1;  // that layers are signalled from; -1: the same
  // Free for the watcher's thread, which spins there; -1: the same, where it naps.
  int watcher_core = -1;
  // The GPU whose memory the pages of this side lie in; none: the host's.
  std::optional<CudaDeviceId> device;
  std::string cuda_driver = "libcuda.so.1";  // loaded if a GPU is named
};

}  // namespace kvrail::perf

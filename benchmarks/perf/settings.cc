#include "perf/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "kvrail/error.h"
#include "perf/device.h"

namespace kvrail::perf {
namespace {

constexpr std::array<std::pair<Layout, const char*>, 3> kLayouts = {{
    {Layout::kNeighbouring, "neighbouring"},
    {Layout::kApart, "apart"},
    {Layout::kShuffled, "shuffled"},
}};
constexpr std::string_view kSuffixes = "KMG";

void require(bool holds, const char* option, const char* range) {
  if (!holds)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("--{} must be {}", option, range));
}

}  // namespace

Layout parse_layout(const std::string& text) {
  for (const auto& [layout, name] : kLayouts) {
    if (text == name) return layout;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("--layout '{}': choose neighbouring, apart or shuffled", text));
}

std::string to_string(Layout layout) {
  for (const auto& [value, name] : kLayouts) {
    if (value == layout) return name;
  }
  return "?";
}

std::uint64_t parse_bytes(const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  unsigned shift = 0;
  bool good = error == std::errc() && value > 0;
  if (good && stop != end) {
    const auto suffix = kSuffixes.find(*stop);
    shift = 10 * static_cast<unsigned>(suffix + 1);
    good = suffix != std::string_view::npos && stop + 1 == end && value < (1ULL << 32);
  }
  if (!good) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is no size: write bytes, or a number with K, M or G", text));
  }
  return value << shift;
}

std::string bytes_text(std::uint64_t bytes) {
  std::size_t suffix = 0;
  while (suffix < kSuffixes.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++suffix;
  }
  return suffix == 0 ? std::to_string(bytes) : std::to_string(bytes) + kSuffixes[suffix - 1];
}

void Settings::check() const {
  require(!page_bytes.empty(), "page-bytes", "one size or more");
  for (const std::uint64_t bytes : page_bytes) {
    require(bytes % 8 == 0 && bytes <= max_memory_bytes, "page-bytes",
            "multiples of 8, up to --max-memory");
  }
  require(pages >= 1 && pages <= (1U << 24), "pages", "1 to 16,777,216");
  require(list_pages >= 1, "list-pages", "at least 1");
  require(depth >= 1 && depth <= (1U << 16), "depth", "1 to 65,536");
  require(rails >= 1 && rails <= 16, "rails", "1 to 16");
  require(tokens >= 1 && tokens <= (1U << 24), "tokens", "1 to 16,777,216");
  require(chunk_tokens <= tokens, "chunk-tokens", "up to --tokens; 0: all");
  require(page_tokens >= 1 && page_tokens <= 65536, "page-tokens", "1 to 65,536");
  require(tp_prefill >= 1 && tp_prefill <= 1024, "tp-prefill", "1 to 1,024");
  require(tp_decode >= 1 && tp_decode <= 1024, "tp-decode", "1 to 1,024");
  require(watcher == "thread" || watcher == "worker", "watcher", "thread or worker");
  require(model_config.size() <= (1U << 20), "model", "a file of up to 1 MiB");
  require(rounds >= 1 && rounds <= 10000, "rounds", "1 to 10,000");
  require(!baseline || rounds >= 5, "rounds", "at least 5 with --baseline, for the ratios");
  require(round_ms <= 60000, "round-ms", "0 to 60,000");
  require(messages >= 1 && messages <= 100000, "messages", "1 to 100,000");
}

Json to_json(const Settings& settings) {
  return {{"tests", settings.tests},
          {"provider", settings.provider},
          {"nic", settings.nic},
          {"page_bytes", settings.page_bytes},
          {"pages", settings.pages},
          {"list_pages", settings.list_pages},
          {"depth", settings.depth},
          {"rails", settings.rails},
          {"queue_depth", settings.queue_depth},
          {"receive_credit", settings.receive_credit},
          {"max_write_bytes", settings.max_write_bytes},
          {"spin_us", settings.spin_us},
          {"layout", to_string(settings.layout)},
          {"model", settings.model},
          {"model_config", settings.model_config},
          {"tokens", settings.tokens},
          {"chunk_tokens", settings.chunk_tokens},
          {"page_tokens", settings.page_tokens},
          {"tp_prefill", settings.tp_prefill},
          {"tp_decode", settings.tp_decode},
          {"watcher", settings.watcher},
          {"rounds", settings.rounds},
          {"round_ms", settings.round_ms},
          {"messages", settings.messages},
          {"baseline", settings.baseline},
          {"max_memory_bytes", settings.max_memory_bytes},
          {"target_device", device_text(settings.target_device)}};
}

Settings settings_from_json(const Json& json) {
  Settings settings;
  try {
    json.at("tests").get_to(settings.tests);
    json.at("provider").get_to(settings.provider);
    json.at("nic").get_to(settings.nic);
    json.at("page_bytes").get_to(settings.page_bytes);
    json.at("pages").get_to(settings.pages);
    json.at("list_pages").get_to(settings.list_pages);
    json.at("depth").get_to(settings.depth);
    json.at("rails").get_to(settings.rails);
    json.at("queue_depth").get_to(settings.queue_depth);
    json.at("receive_credit").get_to(settings.receive_credit);
    json.at("max_write_bytes").get_to(settings.max_write_bytes);
    json.at("spin_us").get_to(settings.spin_us);
    settings.layout = parse_layout(json.at("layout").get<std::string>());
    json.at("model").get_to(settings.model);
    json.at("model_config").get_to(settings.model_config);
    json.at("tokens").get_to(settings.tokens);
    json.at("chunk_tokens").get_to(settings.chunk_tokens);
    json.at("page_tokens").get_to(settings.page_tokens);
    json.at("tp_prefill").get_to(settings.tp_prefill);
    json.at("tp_decode").get_to(settings.tp_decode);
    json.at("watcher").get_to(settings.watcher);
    json.at("rounds").get_to(settings.rounds);
    json.at("round_ms").get_to(settings.round_ms);
    json.at("messages").get_to(settings.messages);
    json.at("baseline").get_to(settings.baseline);
    json.at("max_memory_bytes").get_to(settings.max_memory_bytes);
    settings.target_device =
        parse_device(json.at("target_device").get<std::string>(), kTargetDeviceOption);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kMalformed, fmt::format("the other side's settings: {}", error.what()));
  }
  settings.check();
  return settings;
}

}  // namespace kvrail::perf

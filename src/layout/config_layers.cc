#include "layout/config_layers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "kvrail/kv_layout.h"
#include "layout/refuse.h"

namespace kvrail {
namespace {

using Kinds = std::vector<ConfigLayer>;

struct NamedKind {
  std::string_view name;
  ConfigLayer kind;
};

constexpr std::string_view kChunked = "chunked_attention";

// A layer that attends to its chunk sees no more than the last chunk's length of tokens.
constexpr std::array kLayerTypes = {
    NamedKind{"full_attention", ConfigLayer::kFull},
    NamedKind{"attention", ConfigLayer::kFull},
    NamedKind{"sliding_attention", ConfigLayer::kWindow},
    NamedKind{kChunked, ConfigLayer::kWindow},
    NamedKind{"linear_attention", ConfigLayer::kDeltaNet},
    NamedKind{"mamba", ConfigLayer::kMamba2},
    NamedKind{"mamba2", ConfigLayer::kMamba2},
    NamedKind{"mlp", ConfigLayer::kNone},
    NamedKind{"moe", ConfigLayer::kNone},
};

constexpr std::array kPatternLetters = {
    NamedKind{"*", ConfigLayer::kFull},
    NamedKind{"M", ConfigLayer::kMamba2},
    NamedKind{"-", ConfigLayer::kNone},
    NamedKind{"E", ConfigLayer::kNone},
};

// Says that some layers keep a state, but not which.
constexpr std::array kStateFields = {"linear_num_value_heads", "mamba_num_heads", "mamba_n_heads",
                                     "mamba_d_state", "ssm_state_size"};

// The models whose configurations may leave out that every n-th layer is full and the others have
// windows, as their classes say.
struct DefaultPattern {
  std::string_view model_type;
  std::uint32_t interval;
};
constexpr std::array kDefaultPatterns = {
    DefaultPattern{"gemma2", 2},  DefaultPattern{"gemma3", 6},  DefaultPattern{"gemma3_text", 6},
    DefaultPattern{"cohere2", 4}, DefaultPattern{"gpt_oss", 2},
};

template <std::size_t kSize>
ConfigLayer kind_of(std::string_view name, const std::array<NamedKind, kSize>& known,
                    const char* field, std::size_t layer) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const NamedKind& kind) { return kind.name == name; });
  if (found == known.end()) {
    std::string names;
    for (const NamedKind& kind : known) {
      names += (names.empty() ? "" : ", ") + std::string(kind.name);
    }
    refuse("\"{}\" says {:?} of layer {}, but known are {}", field,
           std::string(name.substr(0, kMaxNameSize)), layer, names);
  }
  return found->kind;
}

void check_length(const char* field, std::size_t size, std::uint32_t layers) {
  if (size != layers) {
    refuse("\"{}\" has {} entries, but \"num_hidden_layers\" is {}", field, size, layers);
  }
}

std::uint32_t window_of(const ConfigFields& config, bool chunked, bool sliding) {
  if (chunked && sliding) {
    refuse(
        "\"layer_types\" has both {} and sliding_attention, but layers of one window only are "
        "described",
        kChunked);
  }
  return config.number(chunked ? "attention_chunk_size" : "sliding_window");
}

std::optional<ConfigLayers> from_list(const ConfigFields& config, const char* field,
                                      std::uint32_t count) {
  const auto names = config.find_texts(field);
  if (!names) return std::nullopt;
  check_length(field, names->size(), count);
  ConfigLayers layers;
  for (std::size_t layer = 0; layer < names->size(); ++layer) {
    layers.kinds.push_back(kind_of((*names)[layer], kLayerTypes, field, layer));
  }
  const auto has = [&](std::string_view name) {
    return std::find(names->begin(), names->end(), name) != names->end();
  };
  const bool chunked = has(kChunked);
  const bool sliding = has("sliding_attention");
  if (chunked || sliding) layers.window_tokens = window_of(config, chunked, sliding);
  if (sliding && !config.flag("use_sliding_window", true)) {
    refuse("\"{}\" has sliding_attention, but \"use_sliding_window\" is false", field);
  }
  return layers;
}

std::optional<ConfigLayers> from_letters(const ConfigFields& config, std::uint32_t count) {
  constexpr const char* kField = "hybrid_override_pattern";
  const auto letters = config.find_text(kField);
  if (!letters) return std::nullopt;
  check_length(kField, letters->size(), count);
  ConfigLayers layers;
  for (std::size_t layer = 0; layer < letters->size(); ++layer) {
    layers.kinds.push_back(
        kind_of(std::string_view(*letters).substr(layer, 1), kPatternLetters, kField, layer));
  }
  return layers;
}

// Every n-th layer is full.
Kinds every(std::uint32_t interval, ConfigLayer others, std::uint32_t count) {
  Kinds kinds(count, others);
  for (std::uint64_t layer = interval - 1; layer < count; layer += interval) {
    kinds[layer] = ConfigLayer::kFull;
  }
  return kinds;
}

std::optional<std::uint32_t> window_interval(const ConfigFields& config,
                                             std::string_view model_type) {
  for (const char* field : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    if (const auto interval = config.find_number(field)) return interval;
  }
  for (const DefaultPattern& pattern : kDefaultPatterns) {
    if (pattern.model_type == model_type) return pattern.interval;
  }
  return std::nullopt;
}

ConfigLayers from_window(const ConfigFields& config, std::uint32_t count) {
  const std::string model_type = config.find_text("model_type").value_or("");
  // Models of the Qwen family have a window in their configuration that they do not use.
  const bool uses_window = config.flag("use_sliding_window", !model_type.starts_with("qwen"));
  const auto window = uses_window ? config.find_number("sliding_window", 0) : std::nullopt;
  if (window.value_or(0) == 0) return {Kinds(count, ConfigLayer::kFull), 0};
  if (const auto interval = window_interval(config, model_type)) {
    return {every(*interval, ConfigLayer::kWindow, count), *window};
  }
  const std::uint32_t full = config.find_number("max_window_layers", 0).value_or(0);
  Kinds kinds(count, ConfigLayer::kWindow);
  std::fill_n(kinds.begin(), std::min(full, count), ConfigLayer::kFull);
  return {kinds, *window};
}

ConfigLayers from_fields(const ConfigFields& config, std::uint32_t count) {
  for (const char* field : {"layer_types", "layers_block_type"}) {
    if (auto layers = from_list(config, field, count)) return *layers;
  }
  if (auto layers = from_letters(config, count)) return *layers;
  if (const auto interval = config.find_number("full_attention_interval")) {
    return {every(*interval, ConfigLayer::kDeltaNet, count), 0};
  }
  for (const char* field : kStateFields) {
    if (config.says(field)) {
      refuse(
          "\"{}\" says that layers keep a state, but none of \"layer_types\", "
          "\"layers_block_type\", \"hybrid_override_pattern\" and \"full_attention_interval\" says "
          "which",
          field);
    }
  }
  return from_window(config, count);
}

}  // namespace

ConfigLayers config_layers(const ConfigFields& config) {
  const std::uint32_t count = config.number("num_hidden_layers", 1, kMaxLayers);
  ConfigLayers layers = from_fields(config, count);
  // The last layers of some models use what earlier ones keep.
  const std::uint32_t sharing =
      config.find_number("num_kv_shared_layers", 0, count - 1).value_or(0);
  std::fill(layers.kinds.end() - sharing, layers.kinds.end(), ConfigLayer::kNone);
  return layers;
}

}  // namespace kvrail

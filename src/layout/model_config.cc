#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "kvrail/error.h"
#include "kvrail/kv_layout.h"
#include "kvrail/model_shape.h"
#include "layout/config_fields.h"
#include "layout/config_layers.h"
#include "layout/config_states.h"
#include "layout/refuse.h"

namespace kvrail {
namespace {

// Configurations name no type where the weights have several.
constexpr std::uint32_t kDefaultElementBytes = 2;

// The indexer's keys are 8-bit floats with one scale for each block of them.
constexpr std::uint32_t kIndexerBlock = 128;
constexpr std::uint32_t kIndexerScaleBytes = 4;

// Fields that make a cache another one than what is read here says.
constexpr std::array kNotUnderstood = {
    "attention_k_eq_v",
    "attn_config",
    "attn_layer_indices",
    "attn_layer_period",
    "attn_type_list",
    "block_configs",
    "compress_ratios",
    "cross_attention_layers",
    "global_head_dim",
    "hybrid_layer_pattern",
    "index_topk_pattern",
    "linear_attn_config",
    "num_global_key_value_heads",
    "swa_head_dim",
    "swa_num_key_value_heads",
};

// Other names for how heads of attention share those of K and V.
constexpr std::array kOtherGroupings = {"multi_query", "multi_query_group_num", "num_kv_heads"};

void refuse_what_is_not_understood(const ConfigFields& config) {
  for (const char* field : kNotUnderstood) {
    if (config.says(field)) {
      refuse(
          "\"{}\" describes a cache that is not understood here; fill in the ModelShape, or a "
          "KvLayout, instead",
          field);
    }
  }
}

std::uint32_t element_bytes(const ConfigFields& config) {
  for (const char* field : {"dtype", "torch_dtype"}) {
    if (const auto type = config.find_text(field)) return bytes_of_type(field, *type);
  }
  return kDefaultElementBytes;
}

bool is_gemma(const ConfigFields& config) {
  return config.find_text("model_type").value_or("").starts_with("gemma");
}

std::uint32_t default_head_size(const ConfigFields& config, std::uint32_t hidden_size) {
  // They leave it out where it is as in their class.
  if (is_gemma(config)) return 256;
  const std::uint32_t heads = config.number("num_attention_heads", 1, kMaxHeads);
  if (hidden_size % heads != 0) {
    refuse(
        "\"head_dim\" is missing, and \"hidden_size\" {} is no multiple of "
        "\"num_attention_heads\" {}",
        hidden_size, heads);
  }
  return hidden_size / heads;
}

std::uint32_t kv_heads(const ConfigFields& config) {
  if (const auto heads = config.find_number("num_key_value_heads", 1, kMaxHeads)) return *heads;
  // One per head of attention, unless another field says how they are grouped, or the model leaves
  // out what is as in its class.
  const auto grouped = std::find_if(kOtherGroupings.begin(), kOtherGroupings.end(),
                                    [&](const char* field) { return config.says(field); });
  if (grouped != kOtherGroupings.end()) {
    refuse("\"{}\" is given, but only \"num_key_value_heads\" is understood, which is missing",
           *grouped);
  }
  return config.number(is_gemma(config) ? "num_key_value_heads" : "num_attention_heads", 1,
                       kMaxHeads);
}

void read_heads(const ConfigFields& config, ModelShape& shape) {
  shape.kv_heads = kv_heads(config);
  auto head_size = config.find_number("head_dim");
  if (!head_size) head_size = config.find_number("attention_head_dim");
  shape.head_size = head_size ? *head_size : default_head_size(config, shape.hidden_size);
  const auto value_size = config.find_number("v_head_dim");
  if (value_size && *value_size != shape.head_size) {
    refuse("\"v_head_dim\" is {}, but heads of K have {} elements; only equal ones are described",
           *value_size, shape.head_size);
  }
}

void read_indexer(const ConfigFields& config, ModelShape& shape) {
  const auto size = config.find_number("index_head_dim");
  if (!size) return;
  if (*size % kIndexerBlock != 0) {
    refuse("\"index_head_dim\" is {}, but must be a multiple of {}", *size, kIndexerBlock);
  }
  const auto types = config.find_texts("indexer_types");
  if (config.find_number("index_topk_freq").value_or(1) != 1 ||
      (types && std::any_of(types->begin(), types->end(),
                            [](const std::string& type) { return type != "full"; }))) {
    refuse(
        "\"index_topk_freq\" or \"indexer_types\" says that some layers share the indexer of "
        "others; only one per layer is described");
  }
  shape.indexer_bytes = *size + *size / kIndexerBlock * kIndexerScaleBytes;
}

// What a layer keeps of every token.
void read_tokens(const ConfigFields& config, ModelShape& shape) {
  if (const auto latent = config.find_number("kv_lora_rank")) {
    shape.latent_size = *latent + config.number("qk_rope_head_dim");
  } else {
    read_heads(config, shape);
  }
  read_indexer(config, shape);
}

void read_layers(const ConfigFields& config, ModelShape& shape) {
  const ConfigLayers layers = config_layers(config);
  const auto has = [&](ConfigLayer kind) {
    return std::find(layers.kinds.begin(), layers.kinds.end(), kind) != layers.kinds.end();
  };
  for (const ConfigLayer kind : layers.kinds) {
    if (kind == ConfigLayer::kNone) continue;
    shape.layer_kinds.push_back(kind == ConfigLayer::kFull     ? LayerKind::kFull
                                : kind == ConfigLayer::kWindow ? LayerKind::kWindow
                                                               : LayerKind::kState);
  }
  shape.layers = static_cast<std::uint32_t>(shape.layer_kinds.size());
  if (shape.layers == 0) refuse("no layer keeps anything of a sequence");
  if (has(ConfigLayer::kWindow)) shape.window_tokens = layers.window_tokens;
  if (has(ConfigLayer::kDeltaNet) && has(ConfigLayer::kMamba2)) {
    refuse(
        "some layers have linear attention and others are Mamba layers; states of one kind only "
        "are described");
  }
  if (has(ConfigLayer::kDeltaNet)) shape.states = delta_net_states(config, shape.element_bytes);
  if (has(ConfigLayer::kMamba2)) shape.states = mamba2_states(config, shape.element_bytes);
  const bool all_full = !has(ConfigLayer::kWindow) && shape.states.empty();
  if (all_full) shape.layer_kinds.clear();

  auto draft = config.find_number("num_nextn_predict_layers", 0, kMaxLayers);
  if (!draft) draft = config.find_number("mtp_num_hidden_layers", 0, kMaxLayers);
  shape.draft_layers = draft.value_or(0);
  const bool has_tokens = has(ConfigLayer::kFull) || has(ConfigLayer::kWindow);
  if (has_tokens || shape.draft_layers != 0) read_tokens(config, shape);
}

ModelShape read_shape(const ConfigFields& config) {
  refuse_what_is_not_understood(config);
  ModelShape shape;
  shape.element_bytes = element_bytes(config);
  shape.hidden_size = config.number("hidden_size");
  shape.vocabulary = config.find_number("vocab_size").value_or(0);
  read_layers(config, shape);
  return shape;
}

}  // namespace

ModelShape model_shape_from_config(std::string_view config_json, std::string name) {
  try {
    ModelShape shape = read_shape(ConfigFields(config_json));
    shape.name = std::move(name);
    return shape;
  } catch (const Error& error) {
    refuse("the configuration of {} cannot be used: {}", name, error.what());
  }
}

}  // namespace kvrail

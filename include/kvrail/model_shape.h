#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvrail {

// What a layer keeps between tokens.
enum class LayerKind : std::uint8_t {
  kFull,    // K and V, or a latent, of every token
  kWindow,  // the same, of the last window_tokens tokens
  kState,   // the state of the sequence: `states`
};

// A part of a layer's state (recurrent, convolution), sharded by heads.
struct StateTensor {
  std::string name;              // "recurrent", "conv_q"
  std::uint32_t heads = 1;       // shared out over tensor-parallel ranks
  std::uint32_t head_bytes = 0;  // at least 1

  bool operator==(const StateTensor&) const = default;
};

// The sizes of a model that decide what its KV cache looks like.
struct ModelShape {
  std::string name;
  // Those that keep something, without draft_layers: layers that are MLP only are not counted, and
  // the others numbered without them.
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0;       // grouped-query attention; unused if latent_size is not 0
  std::uint32_t head_size = 0;      // elements of one head of K or of V
  std::uint32_t latent_size = 0;    // multi-head latent attention: elements per token, else 0
  std::uint32_t element_bytes = 2;  // of the cache
  std::uint32_t hidden_size = 0;    // elements of one hidden state
  std::uint32_t vocabulary = 0;     // logits of one token

  // Sparse attention: bytes of one token's row of the indexer, kept beside the latent, else 0.
  std::uint32_t indexer_bytes = 0;
  // One per layer; empty: all are kFull.
  std::vector<LayerKind> layer_kinds = {};
  std::uint32_t window_tokens = 0;       // at least 1 if a layer is kWindow
  std::vector<StateTensor> states = {};  // not empty if a layer is kState
  // Layers of the draft model for speculative decoding, which run after the others and keep what a
  // full layer keeps.
  std::uint32_t draft_layers = 0;

  bool is_latent() const { return latent_size != 0; }
  std::uint32_t all_layers() const { return layers + draft_layers; }
  // Of the KV cache, for one token over all heads of a full layer.
  std::uint64_t bytes_per_token_and_layer() const {
    return (is_latent() ? std::uint64_t{latent_size} * element_bytes
                        : std::uint64_t{2} * kv_heads * head_size * element_bytes) +
           indexer_bytes;
  }

  bool operator==(const ModelShape&) const = default;
};

// The models whose shape is built in, from their public configurations, with 16-bit elements.
std::span<const ModelShape> known_model_shapes();

// The built-in shape of that name, in any case and with or without the suffix that names the active
// parameters ("qwen3-235b", "Qwen3-235B-A22B"). Throws Error (kNotFound) that lists the names.
const ModelShape& find_model_shape(std::string_view name);

// The shape that a Hugging Face config.json describes; `name` is what both nodes call the model.
// Understood are grouped-query attention and latents (kv_lora_rank) with an indexer
// (index_head_dim), sliding windows (layer_types, sliding_window, sliding_window_pattern,
// max_window_layers), and layers that keep a state: gated delta nets (layer_types or
// full_attention_interval; states "recurrent", "conv_q", "conv_k", "conv_v") and Mamba 2
// (layer_types, layers_block_type or hybrid_override_pattern; "ssm", "conv_x", "conv_b", "conv_c").
//
// Elements have the type of the weights (dtype, torch_dtype; 16 bits if it is missing), indexer
// rows 8-bit elements with a 4-byte scale for 128, and recurrent states float32, as the reference
// implementations keep them, unless mamba_ssm_dtype or mamba_ssm_cache_dtype names another type. An
// engine that keeps them otherwise, or drafts without the layers that the model has for it
// (num_nextn_predict_layers, mtp_num_hidden_layers), changes the shape.
//
// Throws Error (kInvalidArgument) on text that is not JSON or has more than 4 MiB, on a field that
// is missing, wrong, or contradicts another, and on fields that are known to describe another kind
// of cache; it names the field.
ModelShape model_shape_from_config(std::string_view config_json, std::string name);

}  // namespace kvrail

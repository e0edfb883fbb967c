#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvrail {

// The sizes of a model that decide what its KV cache looks like.
struct ModelShape {
  std::string name;
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0;       // grouped-query attention; unused if latent_size is not 0
  std::uint32_t head_size = 0;      // elements of one head of K or of V
  std::uint32_t latent_size = 0;    // multi-head latent attention: elements per token, else 0
  std::uint32_t element_bytes = 2;  // of the cache
  std::uint32_t hidden_size = 0;    // elements of one hidden state
  std::uint32_t vocabulary = 0;     // logits of one token

  bool is_latent() const { return latent_size != 0; }
  // Of the KV cache, for one token over all heads.
  std::uint64_t bytes_per_token_and_layer() const {
    return is_latent() ? std::uint64_t{latent_size} * element_bytes
                       : std::uint64_t{2} * kv_heads * head_size * element_bytes;
  }

  bool operator==(const ModelShape&) const = default;
};

// The models whose shape is built in, from their public configurations, with 16-bit elements.
std::span<const ModelShape> known_model_shapes();

// The built-in shape of that name, in any case and with or without the suffix that names the active
// parameters ("qwen3-235b", "Qwen3-235B-A22B"). Throws Error (kNotFound) that lists the names.
const ModelShape& find_model_shape(std::string_view name);

}  // namespace kvrail

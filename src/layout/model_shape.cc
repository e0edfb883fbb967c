#include "kvrail/model_shape.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kvrail/error.h"

namespace kvrail {
namespace {

struct Alias {
  std::string_view alias;
  std::string_view name;
};

constexpr std::array kAliases = {
    Alias{"qwen3-coder-480b", "Qwen3-Coder-480B-A35B"},
    Alias{"qwen3-235b", "Qwen3-235B-A22B"},
    Alias{"qwen3-next-80b", "Qwen3-Next-80B-A3B"},
};

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

ModelShape grouped(std::string name, std::uint32_t layers, std::uint32_t kv_heads,
                   std::uint32_t head_size, std::uint32_t hidden_size, std::uint32_t vocabulary) {
  ModelShape shape;
  shape.name = std::move(name);
  shape.layers = layers;
  shape.kv_heads = kv_heads;
  shape.head_size = head_size;
  shape.hidden_size = hidden_size;
  shape.vocabulary = vocabulary;
  return shape;
}

ModelShape latent(std::string name, std::uint32_t layers, std::uint32_t latent_size,
                  std::uint32_t hidden_size, std::uint32_t vocabulary) {
  ModelShape shape = grouped(std::move(name), layers, 0, 0, hidden_size, vocabulary);
  shape.latent_size = latent_size;
  return shape;
}

// Layers with a window of 128 tokens and full ones take turns.
ModelShape gpt_oss_120b() {
  ModelShape shape = grouped("gpt-oss-120b", 36, 8, 64, 2880, 201088);
  shape.window_tokens = 128;
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    shape.layer_kinds.push_back(layer % 2 == 0 ? LayerKind::kWindow : LayerKind::kFull);
  }
  return shape;
}

// Every fourth layer is full; the others are gated delta nets with 32 value heads and 16 key heads
// of 128 elements and a convolution over 4 tokens, of which the state keeps 3.
ModelShape qwen3_next_80b() {
  ModelShape shape = grouped("Qwen3-Next-80B-A3B", 48, 2, 256, 2048, 151936);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    shape.layer_kinds.push_back(layer % 4 == 3 ? LayerKind::kFull : LayerKind::kState);
  }
  shape.states = {{"recurrent", 32, 128 * 128 * 4},
                  {"conv_q", 16, 128 * 3 * 2},
                  {"conv_k", 16, 128 * 3 * 2},
                  {"conv_v", 32, 128 * 3 * 2}};
  return shape;
}

}  // namespace

std::span<const ModelShape> known_model_shapes() {
  static const std::vector<ModelShape> shapes = {
      grouped("Llama-3-70B", 80, 8, 128, 8192, 128256),
      grouped("Qwen3-Coder-480B-A35B", 62, 8, 128, 6144, 151936),
      grouped("Qwen3-235B-A22B", 94, 4, 128, 4096, 151936),
      latent("DeepSeek-R1", 61, 512 + 64, 7168, 129280),
      gpt_oss_120b(),
      qwen3_next_80b(),
      grouped("SmolLM2-135M", 30, 3, 64, 576, 49152),
  };
  return shapes;
}

const ModelShape& find_model_shape(std::string_view name) {
  std::string_view wanted = name;
  for (const Alias& alias : kAliases) {
    if (same_name(name, alias.alias)) {
      wanted = alias.name;
    }
  }
  std::string names;
  for (const ModelShape& shape : known_model_shapes()) {
    if (same_name(wanted, shape.name)) {
      return shape;
    }
    names += (names.empty() ? "" : ", ") + shape.name;
  }
  throw Error(ErrorCode::kNotFound,
              "no model shape is named \"" + std::string(name) + "\"; known are " + names);
}

}  // namespace kvrail

#include "support/model_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "kvrail/error.h"

namespace mock_engine {
namespace {

using nlohmann::json;

std::optional<std::uint32_t> find_number(const json& config, const char* key) {
  if (!config.contains(key) || config[key].is_null()) return std::nullopt;
  const json& value = config[key];
  if (!value.is_number_unsigned() || value < 1 || value > (1u << 24)) {
    throw std::invalid_argument(
        fmt::format("\"{}\" must be a whole number from 1, not {}", key, value.dump()));
  }
  return value.get<std::uint32_t>();
}

std::uint32_t number(const json& config, const char* key) {
  if (const auto value = find_number(config, key)) return *value;
  throw std::invalid_argument(
      fmt::format("the key \"{}\" is missing: give the config.json of a language model", key));
}

std::uint32_t element_bytes(const json& config) {
  const std::string type = config.value("torch_dtype", config.value("dtype", "bfloat16"));
  if (type == "bfloat16" || type == "float16") return 2;
  if (type == "float32") return 4;
  if (type.starts_with("float8")) return 1;
  throw std::invalid_argument(fmt::format(
      "\"torch_dtype\" is \"{}\", but must be float32, float16, bfloat16 or float8...", type));
}

kvrail::ModelShape parse_shape(const json& whole) {
  if (!whole.is_object()) throw std::invalid_argument("it is not a JSON object");
  const json& config = whole.contains("text_config") ? whole["text_config"] : whole;
  if (!config.is_object()) throw std::invalid_argument("\"text_config\" is not a JSON object");
  kvrail::ModelShape shape;
  shape.name = whole.value("_name_or_path", config.value("model_type", "model"));
  shape.layers = number(config, "num_hidden_layers");
  shape.hidden_size = number(config, "hidden_size");
  shape.vocabulary = find_number(config, "vocab_size").value_or(0);
  shape.element_bytes = element_bytes(config);
  if (const auto latent = find_number(config, "kv_lora_rank")) {
    shape.latent_size = *latent + number(config, "qk_rope_head_dim");
    return shape;
  }
  const std::uint32_t heads = number(config, "num_attention_heads");
  shape.kv_heads = find_number(config, "num_key_value_heads").value_or(heads);
  shape.head_size = find_number(config, "head_dim").value_or(shape.hidden_size / heads);
  return shape;
}

}  // namespace

kvrail::ModelShape read_model_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error(
        fmt::format("--model: cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  try {
    return parse_shape(json::parse(file));
  } catch (const json::parse_error& error) {
    throw std::runtime_error(
        fmt::format("--model: {} is not JSON: {}", path.string(), error.what()));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("--model: {}: {}", path.string(), error.what()));
  }
}

kvrail::ModelShape find_model(const std::string& name_or_path) {
  if (std::filesystem::exists(name_or_path)) return read_model_file(name_or_path);
  try {
    return kvrail::find_model_shape(name_or_path);
  } catch (const kvrail::Error& error) {
    throw std::runtime_error(
        fmt::format("--model: {}; or give the path of a config.json", error.what()));
  }
}

}  // namespace mock_engine

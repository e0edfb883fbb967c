#include "support/model_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kvrail/error.h"

namespace mock_engine {
namespace {

// What both nodes call the model, wherever its file is.
std::string name_in(const std::string& text) {
  const auto config = nlohmann::json::parse(text, nullptr, false);
  for (const char* key : {"_name_or_path", "model_type"}) {
    if (!config.is_object() || !config.contains(key) || !config[key].is_string()) continue;
    if (!config[key].get<std::string>().empty()) return config[key];
  }
  return "model";
}

}  // namespace

kvrail::ModelShape read_model_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error(
        fmt::format("--model: cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return kvrail::model_shape_from_config(text, name_in(text));
  } catch (const kvrail::Error& error) {
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

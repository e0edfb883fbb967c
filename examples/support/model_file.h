#pragma once

#include <filesystem>
#include <string>

#include "kvrail/model_shape.h"

namespace mock_engine {

// The shape of the KV cache from a Hugging Face config.json. Throws std::runtime_error that names
// the file and the key that is missing or out of range.
kvrail::ModelShape read_model_file(const std::filesystem::path& path);

// A built-in shape, or what the file of that name says. Throws as read_model_file and
// kvrail::find_model_shape do.
kvrail::ModelShape find_model(const std::string& name_or_path);

}  // namespace mock_engine

#pragma once

#include <cstdint>
#include <vector>

#include "layout/config_fields.h"

namespace kvrail {

// What a layer of a configuration keeps.
enum class ConfigLayer : std::uint8_t {
  kFull,
  kWindow,
  kDeltaNet,  // gated linear attention: a recurrent matrix and a convolution
  kMamba2,
  kNone,  // it has no attention, or uses what another layer keeps
};

struct ConfigLayers {
  std::vector<ConfigLayer> kinds;   // one per hidden layer
  std::uint32_t window_tokens = 0;  // at least 1 if one is kWindow
};

// Throws Error (kInvalidArgument) that names the field that is missing, wrong or not understood.
ConfigLayers config_layers(const ConfigFields& config);

}  // namespace kvrail

#pragma once

#include <algorithm>
#include <vector>

#include "kvrail/kv_layout.h"

namespace kvrail {

// The layers of a group that a rank holds, ascending.
inline std::vector<LayerIndex> held_layers(const RankGroup& held) {
  std::vector<LayerIndex> layers;
  for (const TensorPlacement& placement : held.placements) {
    layers.push_back(placement.layer);
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

}  // namespace kvrail

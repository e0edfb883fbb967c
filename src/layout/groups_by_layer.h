#pragma once

#include <vector>

#include "kvrail/kv_layout.h"

namespace kvrail {

// The cache group of each layer of a layout whose groups are valid.
inline std::vector<CacheGroupIndex> groups_by_layer(const KvLayout& layout) {
  std::vector<CacheGroupIndex> groups(layout.layer_count);
  for (std::uint32_t group = 0; group < layout.groups.size(); ++group) {
    for (const LayerIndex layer : layout.groups[group].layers) {
      groups[layer.value()] = CacheGroupIndex{group};
    }
  }
  return groups;
}

}  // namespace kvrail

#pragma once

#include <vector>

#include "kvrail/kv_builders.h"

namespace kvrail {

// The cache groups of the options' model, those that have layers: "full", "window", "state",
// "draft". Sizes of pages and pools are those of the options. Throws Error (kInvalidArgument) if
// the model or a size is outside its range.
std::vector<CacheGroup> cache_groups(const KvCacheOptions& options);

}  // namespace kvrail

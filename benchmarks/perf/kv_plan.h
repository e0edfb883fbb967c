#pragma once

#include <cstdint>
#include <vector>

#include "kvrail/kv_builders.h"
#include "kvrail/transfer_plan.h"
#include "perf/page_plan.h"

namespace kvrail::perf {

// A whole request between two engines, and the same ranges as pages. Both sides make the same one.
// A side's ranks lie one after the other in its memory.
struct KvPlan {
  KvCacheOptions prefill;
  KvCacheOptions decode;
  // The tokens that cross; the prompt has one more, which is not prefilled.
  std::uint32_t tokens = 0;
  std::vector<TokenRange> chunks;  // one forward pass each
  // How long a layer is "computed" before its signal.
  std::uint32_t layer_us = 0;
  RequestPages source_pages;
  RequestPages target_pages;
  // One list per chunk and layer, as they are computed.
  PagePlan pages;
};

// The request that the settings describe. Throws Error (kInvalidArgument), which names the option,
// for a model that is not known, one that cannot be shared out so, and one that needs more memory.
KvPlan make_kv_plan(const Settings& settings);

// A small one, whose layers are computed slowly: each signal finds the watcher waiting.
KvPlan make_signal_plan();

// The shape of a built-in model, also by the beginning of its name, or of a configuration's text.
ModelShape find_model(const std::string& name, const std::string& config);

}  // namespace kvrail::perf

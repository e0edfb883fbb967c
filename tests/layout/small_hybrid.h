#pragma once

#include "layout/small_layout.h"

namespace kvrail {

// Layer 0 has a window, 1 is full, 2 keeps a state, 3 drafts.
inline KvCacheOptions small_hybrid() {
  KvCacheOptions options = small_options();
  options.model.layers = 3;
  options.model.layer_kinds = {LayerKind::kWindow, LayerKind::kFull, LayerKind::kState};
  options.model.window_tokens = 6;
  options.model.states = {{"recurrent", 8, 64}, {"conv", 4, 6}};
  options.model.draft_layers = 1;
  options.state_count = 2;
  return options;
}

}  // namespace kvrail

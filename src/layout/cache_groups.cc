#include "layout/cache_groups.h"

#include <cstdint>
#include <utility>

#include "layout/refuse.h"

namespace kvrail {
namespace {

void check_model(const ModelShape& model) {
  const std::uint64_t layers = std::uint64_t{model.layers} + model.draft_layers;
  if (model.layers == 0 || layers > kMaxLayers) {
    refuse("{} has {} layers and {} draft layers, but 1 to {} are served", model.name, model.layers,
           model.draft_layers, kMaxLayers);
  }
  if (!model.layer_kinds.empty() && model.layer_kinds.size() != model.layers) {
    refuse(
        "layer_kinds of {} has {} entries for {} layers; give one per layer, or none if all are "
        "full",
        model.name, model.layer_kinds.size(), model.layers);
  }
}

std::uint32_t checked_head_bytes(const ModelShape& model, std::uint64_t elements) {
  const std::uint64_t bytes = elements * model.element_bytes;
  if (bytes == 0 || bytes > UINT32_MAX) {
    refuse("a head of {} has {} bytes, but must have 1 to {}", model.name, bytes, UINT32_MAX);
  }
  return static_cast<std::uint32_t>(bytes);
}

// What a layer keeps of every token.
std::vector<TensorLayout> token_tensors(const KvCacheOptions& options) {
  const ModelShape& model = options.model;
  std::vector<TensorLayout> tensors;
  if (model.is_latent()) {
    tensors.push_back({"latent", 1, checked_head_bytes(model, model.latent_size), options.order});
  } else {
    if (model.kv_heads == 0) {
      refuse("{} has 0 KV heads; set kv_heads, or latent_size if it keeps a latent", model.name);
    }
    const std::uint32_t head_bytes = checked_head_bytes(model, model.head_size);
    for (const char* name : {"k", "v"}) {
      tensors.push_back({name, model.kv_heads, head_bytes, options.order});
    }
  }
  if (model.indexer_bytes != 0) {
    tensors.push_back({"indexer", 1, model.indexer_bytes, options.order});
  }
  return tensors;
}

std::vector<TensorLayout> state_tensors(const KvCacheOptions& options) {
  const ModelShape& model = options.model;
  if (model.states.empty()) {
    refuse("{} has layers that keep a state, but no states; say what they keep", model.name);
  }
  if (model.states.size() > kMaxTensors) {
    refuse("{} has {} states, but at most {} are served", model.name, model.states.size(),
           kMaxTensors);
  }
  std::vector<TensorLayout> tensors;
  for (const StateTensor& state : model.states) {
    if (state.heads == 0 || state.head_bytes == 0) {
      refuse("state \"{}\" of {} has {} heads of {} bytes; both must be at least 1", state.name,
             model.name, state.heads, state.head_bytes);
    }
    tensors.push_back({state.name, state.heads, state.head_bytes, options.order});
  }
  return tensors;
}

CacheGroup token_group(const KvCacheOptions& options, const char* name) {
  if (options.page_tokens == 0 || options.page_tokens > kMaxPageTokens) {
    refuse("page_tokens is {}, but must be 1 to {}", options.page_tokens, kMaxPageTokens);
  }
  if (options.page_count == 0) {
    refuse("page_count is 0; set it to the number of pages of the pool");
  }
  CacheGroup group;
  group.name = name;
  group.page_tokens = options.page_tokens;
  group.page_count = options.page_count;
  if (options.context_parallel > 1) {
    group.cp_ranks = options.context_parallel;
    group.cp_interleave_tokens = options.cp_interleave_tokens;
  }
  group.tensors = token_tensors(options);
  return group;
}

CacheGroup window_group(const KvCacheOptions& options) {
  if (options.model.window_tokens == 0) {
    refuse("window_tokens of {} is 0, but it has layers with a window", options.model.name);
  }
  CacheGroup group = token_group(options, "window");
  group.window_tokens = options.model.window_tokens;
  return group;
}

CacheGroup state_group(const KvCacheOptions& options) {
  if (options.state_count == 0) {
    refuse(
        "state_count is 0, but {} has layers that keep a state; set it to the number of states "
        "in the pool",
        options.model.name);
  }
  CacheGroup group;
  group.name = "state";
  group.kind = CacheKind::kState;
  group.page_tokens = 1;
  group.page_count = options.state_count;
  group.tensors = state_tensors(options);
  return group;
}

}  // namespace

std::vector<CacheGroup> cache_groups(const KvCacheOptions& options) {
  const ModelShape& model = options.model;
  check_model(model);
  std::vector<LayerIndex> full;
  std::vector<LayerIndex> window;
  std::vector<LayerIndex> state;
  std::vector<LayerIndex> draft;
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const LayerKind kind = model.layer_kinds.empty() ? LayerKind::kFull : model.layer_kinds[layer];
    switch (kind) {
      case LayerKind::kFull:
        full.emplace_back(layer);
        continue;
      case LayerKind::kWindow:
        window.emplace_back(layer);
        continue;
      case LayerKind::kState:
        state.emplace_back(layer);
        continue;
    }
    refuse("layer_kinds[{}] of {} is {}, which is neither full, window nor state", layer,
           model.name, static_cast<unsigned>(kind));
  }
  for (std::uint32_t layer = model.layers; layer < model.all_layers(); ++layer) {
    draft.emplace_back(layer);
  }

  std::vector<CacheGroup> groups;
  const auto add = [&](CacheGroup group, std::vector<LayerIndex>& layers) {
    group.layers = std::move(layers);
    groups.push_back(std::move(group));
  };
  if (!full.empty()) add(token_group(options, "full"), full);
  if (!window.empty()) add(window_group(options), window);
  if (!state.empty()) add(state_group(options), state);
  if (!draft.empty()) add(token_group(options, "draft"), draft);
  return groups;
}

}  // namespace kvrail

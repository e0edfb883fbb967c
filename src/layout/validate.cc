#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "kvrail/kv_layout.h"
#include "layout/checked_math.h"
#include "layout/context_checks.h"
#include "layout/rank_checks.h"
#include "layout/refuse.h"

namespace kvrail {
namespace {

void check_name(std::string_view field, std::string_view name) {
  if (name.empty() || name.size() > kMaxNameSize) {
    refuse("{} has {} characters, but must have 1 to {}", field, name.size(), kMaxNameSize);
  }
  // Names are quoted in texts of one line per fact.
  if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    refuse("{} must be printable ASCII", field);
  }
}

void check_tensors(std::size_t g, const CacheGroup& group) {
  check_range(fmt::format("groups[{}].tensors.size", g), group.tensors.size(), 1, kMaxTensors);
  std::unordered_set<std::string_view> names;
  for (std::size_t t = 0; t < group.tensors.size(); ++t) {
    const TensorLayout& tensor = group.tensors[t];
    const std::string field = fmt::format("groups[{}].tensors[{}]", g, t);
    check_name(field + ".name", tensor.name);
    if (!names.insert(tensor.name).second) {
      refuse("{}.name is \"{}\", as is another's", field, tensor.name);
    }
    check_range(field + ".heads", tensor.heads, 1, kMaxHeads);
    check_range(field + ".head_bytes", tensor.head_bytes, 1, UINT32_MAX);
    if (tensor.order != PageOrder::kHnd && tensor.order != PageOrder::kNhd) {
      refuse("{}.order is {}, which is neither HND nor NHD", field,
             static_cast<unsigned>(tensor.order));
    }
    const auto page_bytes = checked_product(group.page_tokens, tensor.heads, tensor.head_bytes);
    if (!page_bytes || *page_bytes > kMaxPageBytes) {
      refuse("{}: a page of {} tokens x {} heads x {} bytes is larger than {} bytes", field,
             group.page_tokens, tensor.heads, tensor.head_bytes, kMaxPageBytes);
    }
  }
}

void check_kind(std::size_t g, const CacheGroup& group) {
  const std::string field = fmt::format("groups[{}]", g);
  check_range(field + ".cp_ranks", group.cp_ranks, 1, kMaxRanks);
  check_range(field + ".cp_interleave_tokens", group.cp_interleave_tokens, 1, kMaxPageTokens);
  switch (group.kind) {
    case CacheKind::kTokens:
      return;
    case CacheKind::kState:
      check_range(field + ".page_tokens of a state", group.page_tokens, 1, 1);
      check_range(field + ".cp_ranks of a state", group.cp_ranks, 1, 1);
      check_range(field + ".window_tokens of a state", group.window_tokens, 0, 0);
      return;
  }
  refuse("{}.kind is {}, which is neither tokens nor state", field,
         static_cast<unsigned>(group.kind));
}

void check_groups(const KvLayout& layout) {
  check_range("groups.size", layout.groups.size(), 1, kMaxCacheGroups);
  std::vector<bool> has_group(layout.layer_count, false);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const CacheGroup& group = layout.groups[g];
    check_name(fmt::format("groups[{}].name", g), group.name);
    check_range(fmt::format("groups[{}].page_tokens", g), group.page_tokens, 1, kMaxPageTokens);
    check_range(fmt::format("groups[{}].page_count", g), group.page_count, 1, UINT32_MAX);
    check_kind(g, group);
    check_tensors(g, group);
    check_range(fmt::format("groups[{}].layers.size", g), group.layers.size(), 1,
                layout.layer_count);
    for (const LayerIndex layer : group.layers) {
      check_range(fmt::format("groups[{}].layers", g), layer.value(), 0, layout.layer_count - 1);
      if (has_group[layer.value()]) {
        refuse("layer {} is in two groups, or twice in groups[{}].layers", layer.value(), g);
      }
      has_group[layer.value()] = true;
    }
  }
  const auto without = std::find(has_group.begin(), has_group.end(), false);
  if (without != has_group.end()) {
    refuse("layer {} is in no group", without - has_group.begin());
  }
}

}  // namespace

void validate(const KvLayout& layout) {
  check_name("model", layout.model);
  check_range("layer_count", layout.layer_count, 1, kMaxLayers);
  check_groups(layout);
  check_range("ranks.size", layout.ranks.size(), 1, kMaxRanks);
  check_ranks(layout);
  check_contexts(layout);
}

}  // namespace kvrail

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "kvrail/kv_layout.h"
#include "layout/held_layers.h"

namespace kvrail {
namespace {

using Text = std::back_insert_iterator<std::string>;

// "0-3, 7"
void append_layers(Text text, const std::vector<LayerIndex>& sorted) {
  const char* separator = "";
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end].value() - sorted[end - 1].value() <= 1) {
      ++end;
    }
    fmt::format_to(text, "{}{}", separator, sorted[i].value());
    if (sorted[end - 1] != sorted[i]) {
      fmt::format_to(text, "-{}", sorted[end - 1].value());
    }
    separator = ", ";
    i = end;
  }
}

// "0-7" where all tensors have the same heads, else "0-7 / 0-7 / none" in the order of the tensors.
void append_heads(Text text, const std::vector<HeadRange>& heads) {
  const bool alike =
      std::adjacent_find(heads.begin(), heads.end(), std::not_equal_to<>()) == heads.end();
  const char* separator = "";
  for (const HeadRange& range : heads) {
    if (range.count == 0) {
      fmt::format_to(text, "{}none", separator);
    } else {
      fmt::format_to(text, "{}{}-{}", separator, range.first,
                     std::uint64_t{range.first} + range.count - 1);
    }
    separator = " / ";
    if (alike) {
      return;
    }
  }
}

std::string_view to_string(PageOrder order) {
  switch (order) {
    case PageOrder::kHnd:
      return "HND";
    case PageOrder::kNhd:
      return "NHD";
  }
  return "unknown order";
}

void append_group(Text text, std::size_t g, const CacheGroup& group) {
  std::vector<LayerIndex> layers = group.layers;
  std::sort(layers.begin(), layers.end());
  fmt::format_to(text, "group {} \"{}\": ", g, group.name);
  if (group.kind == CacheKind::kState) {
    fmt::format_to(text, "one state per sequence");
  } else {
    fmt::format_to(text, "pages of {} tokens", group.page_tokens);
  }
  if (group.window_tokens != 0) fmt::format_to(text, ", window of {}", group.window_tokens);
  if (group.cp_ranks != 1) {
    fmt::format_to(text, ", dealt to {} cp ranks {} tokens at a time", group.cp_ranks,
                   group.cp_interleave_tokens);
  }
  fmt::format_to(text, ", layers ");
  append_layers(text, layers);
  fmt::format_to(text, "\n");
  for (std::size_t t = 0; t < group.tensors.size(); ++t) {
    const TensorLayout& tensor = group.tensors[t];
    fmt::format_to(text, "group {} tensor {} \"{}\": {} heads of {} bytes, {}\n", g, t, tensor.name,
                   tensor.heads, tensor.head_bytes, to_string(tensor.order));
  }
}

// The strides of each tensor whose rows are not dense.
void append_strides(Text text, std::size_t r, std::size_t g, const RankGroup& held) {
  std::set<std::uint32_t> told;
  for (const TensorPlacement& placement : held.placements) {
    const bool dense = placement.head_stride_bytes == 0 && placement.token_stride_bytes == 0;
    if (dense || !told.insert(placement.tensor).second) continue;
    fmt::format_to(text, "rank {} group {} tensor {}: strides", r, g, placement.tensor);
    if (placement.token_stride_bytes != 0) {
      fmt::format_to(text, " {} of tokens", placement.token_stride_bytes);
    }
    if (placement.head_stride_bytes != 0) {
      fmt::format_to(text, " {} of heads", placement.head_stride_bytes);
    }
    fmt::format_to(text, "\n");
  }
}

void append_rank(Text text, std::size_t r, const RankLayout& rank) {
  fmt::format_to(text, "rank {}: dp {}, tp {}, pp {}, cp {}, replica set {}\n", r,
                 rank.dp_rank.value(), rank.tp_rank, rank.pp_rank, rank.cp_rank, rank.replica_set);
  for (std::size_t g = 0; g < rank.groups.size(); ++g) {
    const auto layers = held_layers(rank.groups[g]);
    if (layers.empty()) {
      continue;
    }
    fmt::format_to(text, "rank {} group {}: heads ", r, g);
    append_heads(text, rank.groups[g].heads);
    fmt::format_to(text, ", layers ");
    append_layers(text, layers);
    fmt::format_to(text, "\n");
    append_strides(text, r, g, rank.groups[g]);
  }
}

}  // namespace

std::string to_text(const KvLayout& layout) {
  std::string result;
  Text text(result);
  fmt::format_to(text, "model \"{}\": {} layers\n", layout.model, layout.layer_count);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    append_group(text, g, layout.groups[g]);
  }
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    append_rank(text, r, layout.ranks[r]);
  }
  for (const ContextLayout& context : layout.contexts) {
    fmt::format_to(text, "context on rank {}: slots of {} bytes\n", context.rank.value(),
                   context.slot_bytes);
  }
  return result;
}

}  // namespace kvrail

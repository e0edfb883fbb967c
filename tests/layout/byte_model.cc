#include "layout/byte_model.h"

#include <algorithm>

namespace kvrail {
namespace {

struct Strides {
  std::uint64_t page;
  std::uint64_t head;
  std::uint64_t token;
};

Strides strides_of(const CacheGroup& group, HeadRange heads, const TensorPlacement& placement) {
  const TensorLayout& tensor = group.tensors[placement.tensor];
  Strides strides{placement.page_stride_bytes, placement.head_stride_bytes,
                  placement.token_stride_bytes};
  if (strides.head == 0) {
    strides.head = tensor.order == PageOrder::kHnd
                       ? std::uint64_t{group.page_tokens} * tensor.head_bytes
                       : tensor.head_bytes;
  }
  if (strides.token == 0) {
    strides.token = tensor.order == PageOrder::kHnd
                        ? tensor.head_bytes
                        : std::uint64_t{heads.count} * tensor.head_bytes;
  }
  return strides;
}

}  // namespace

TokenRange crossing_tokens(const CacheGroup& group, TokenRange sent) {
  if (group.kind == CacheKind::kState || sent.first >= sent.end) return {};
  TokenRange tokens = sent;
  while (group.window_tokens != 0 && tokens.end - tokens.first > group.window_tokens) {
    ++tokens.first;
  }
  return tokens;
}

std::optional<std::uint32_t> local_token(const CacheGroup& group, std::uint32_t cp_rank,
                                         std::uint32_t token) {
  if (group.cp_ranks == 1) return token;
  std::optional<std::uint32_t> number;
  std::uint32_t count = 0;
  for (std::uint32_t t = 0; t <= token; ++t) {
    number.reset();
    if (t / group.cp_interleave_tokens % group.cp_ranks == cp_rank) number = count++;
  }
  return number;
}

std::vector<HeldByte> held_bytes(const KvLayout& layout, std::size_t rank_index, TokenRange tokens,
                                 const RequestPages& pages) {
  std::vector<HeldByte> bytes;
  const RankLayout& rank = layout.ranks[rank_index];
  if (rank.dp_rank != pages.dp_rank || tokens.first >= tokens.end) return bytes;
  for (std::uint32_t g = 0; g < layout.groups.size(); ++g) {
    const CacheGroup& group = layout.groups[g];
    const bool state = group.kind == CacheKind::kState;
    const std::uint32_t first = state ? 0 : tokens.first;
    const std::uint32_t end = state ? 1 : tokens.end;
    for (std::uint32_t token = first; token < end; ++token) {
      const auto local = state ? std::optional(0u) : local_token(group, rank.cp_rank, token);
      if (!local) continue;
      const std::uint32_t entry = *local / group.page_tokens;
      const std::uint64_t page = pages.by_group[g].at(entry).value();
      for (const TensorPlacement& placement : rank.groups[g].placements) {
        const HeadRange heads = rank.groups[g].heads[placement.tensor];
        const Strides strides = strides_of(group, heads, placement);
        for (std::uint32_t head = 0; head < heads.count; ++head) {
          const std::uint64_t row = placement.base_offset_bytes + page * strides.page +
                                    head * strides.head +
                                    *local % group.page_tokens * strides.token;
          for (std::uint32_t i = 0; i < group.tensors[placement.tensor].head_bytes; ++i) {
            bytes.push_back(
                {{placement.layer.value(), placement.tensor, heads.first + head, token, i},
                 {placement.region.value(), row + i},
                 g,
                 entry});
          }
        }
      }
    }
  }
  return bytes;
}

std::vector<std::uint64_t> region_sizes(const KvLayout& layout) {
  std::vector<std::uint64_t> sizes;
  for (const RankLayout& rank : layout.ranks) {
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      const CacheGroup& group = layout.groups[g];
      for (const TensorPlacement& placement : rank.groups[g].placements) {
        const HeadRange heads = rank.groups[g].heads[placement.tensor];
        const Strides strides = strides_of(group, heads, placement);
        const std::uint64_t end =
            placement.base_offset_bytes + (group.page_count - 1) * strides.page +
            (heads.count - 1) * strides.head + (group.page_tokens - 1) * strides.token +
            group.tensors[placement.tensor].head_bytes;
        if (placement.region.value() >= sizes.size()) sizes.resize(placement.region.value() + 1);
        sizes[placement.region.value()] = std::max(sizes[placement.region.value()], end);
      }
    }
  }
  return sizes;
}

}  // namespace kvrail

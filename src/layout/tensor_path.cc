#include "layout/tensor_path.h"

#include <algorithm>

#include "kvrail/write_list.h"

namespace kvrail {

TensorPath::Side side_of(const CacheGroup& group, std::uint32_t tensor, HeadRange held,
                         std::uint32_t first, std::uint64_t page_stride_bytes) {
  const std::uint64_t head_bytes = group.tensors[tensor].head_bytes;
  TensorPath::Side side;
  side.page_stride_bytes = page_stride_bytes;
  switch (group.tensors[tensor].order) {
    case PageOrder::kHnd:
      side.head_stride_bytes = group.page_tokens * head_bytes;
      side.token_stride_bytes = head_bytes;
      break;
    case PageOrder::kNhd:
      side.head_stride_bytes = head_bytes;
      side.token_stride_bytes = held.count * head_bytes;
      break;
  }
  side.first_head_bytes = (first - held.first) * side.head_stride_bytes;
  return side;
}

std::uint32_t PartRanges::units_each() const {
  return static_cast<std::uint32_t>((range_bytes + kMaxUnitBytes - 1) / kMaxUnitBytes);
}

PartRanges ranges_of(const TensorPath& path, std::uint32_t tokens) {
  const auto heads_adjoin = [&](std::uint64_t bytes) {
    return path.source.head_stride_bytes == bytes && path.target.head_stride_bytes == bytes;
  };
  const auto tokens_adjoin = [&](std::uint64_t bytes) {
    return path.source.token_stride_bytes == bytes && path.target.token_stride_bytes == bytes;
  };
  PartRanges ranges{path.head_bytes, path.heads, tokens};
  const auto join_heads = [&] {
    ranges.range_bytes *= path.heads;
    ranges.heads = 1;
  };
  const auto join_tokens = [&] {
    ranges.range_bytes *= tokens;
    ranges.tokens = 1;
  };
  if (tokens_adjoin(ranges.range_bytes)) {
    join_tokens();
    if (heads_adjoin(ranges.range_bytes)) {
      join_heads();
    }
  } else if (heads_adjoin(ranges.range_bytes)) {
    join_heads();
    if (tokens_adjoin(ranges.range_bytes)) {
      join_tokens();
    }
  }
  return ranges;
}

void append_part(const TensorPath& path, RankIndex source_rank, RankIndex target_rank,
                 const TokenParts& part, TokenRange finished, PageIndex source_page,
                 PageIndex target_page, std::vector<PlannedRun>& out) {
  const PartRanges ranges = ranges_of(path, part.tokens());
  const std::uint64_t first = part.first();
  const std::uint64_t end = first + part.tokens();
  // Tokens of the part at which a range that is due begins.
  std::uint64_t skipped = 0;
  std::uint64_t due = 1;
  if (ranges.tokens == 1) {
    if (end > finished.end) {
      return;
    }
  } else {
    skipped = std::max<std::uint64_t>(first, finished.first) - first;
    due = std::min<std::uint64_t>(end, finished.end) - first - skipped;
  }
  const auto offset = [&](const TensorPath::Side& side, PageIndex page, std::uint32_t slot) {
    return page.value() * side.page_stride_bytes + side.first_head_bytes +
           (slot + skipped) * side.token_stride_bytes;
  };
  const std::uint64_t source = offset(path.source, source_page, part.source_slot());
  const std::uint64_t target = offset(path.target, target_page, part.target_slot());
  const std::uint32_t units = ranges.units_each();
  for (std::uint32_t head = 0; head < ranges.heads; ++head) {
    for (std::uint64_t token = 0; token < due; ++token) {
      out.push_back(
          {source_rank, target_rank, path.tensor,
           source + head * path.source.head_stride_bytes + token * path.source.token_stride_bytes,
           target + head * path.target.head_stride_bytes + token * path.target.token_stride_bytes,
           ranges.range_bytes, units});
    }
  }
}

}  // namespace kvrail

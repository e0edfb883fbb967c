#include "layout/tensor_path.h"

#include <algorithm>

#include "kvrail/write_list.h"

namespace kvrail {

TensorPath::Side side_of(std::uint64_t page_stride_bytes, const RowStrides& rows,
                         std::uint32_t held_first, std::uint32_t first) {
  return {page_stride_bytes, (first - held_first) * rows.head_bytes, rows.head_bytes,
          rows.token_bytes};
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

void append_part(const TensorPath& path, const PartRanges& ranges, const PlannedRun& run,
                 const TokenParts& part, TokenRange finished, PageIndex source_page,
                 PageIndex target_page, std::vector<PlannedRun>& out) {
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
  // One run per head or per token, whichever are fewer. Fields are set where the run will stay: it
  // is far cheaper than to set them in one that is copied then.
  const auto append = [&](std::uint64_t runs, std::uint64_t source_step, std::uint64_t target_step,
                          std::uint64_t count, std::uint64_t source_stride,
                          std::uint64_t target_stride) {
    for (std::uint64_t i = 0; i < runs; ++i) {
      PlannedRun& added = out.emplace_back(run);
      added.tensor = path.tensor;
      added.source_offset_bytes = source + i * source_step;
      added.target_offset_bytes = target + i * target_step;
      added.size_bytes = ranges.range_bytes;
      added.units = units;
      added.count = static_cast<std::uint32_t>(count);
      added.source_stride_bytes = count == 1 ? 0 : source_stride;
      added.target_stride_bytes = count == 1 ? 0 : target_stride;
    }
  };
  if (due >= ranges.heads) {
    append(ranges.heads, path.source.head_stride_bytes, path.target.head_stride_bytes, due,
           path.source.token_stride_bytes, path.target.token_stride_bytes);
  } else {
    append(due, path.source.token_stride_bytes, path.target.token_stride_bytes, ranges.heads,
           path.source.head_stride_bytes, path.target.head_stride_bytes);
  }
}

}  // namespace kvrail

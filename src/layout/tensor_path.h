#pragma once

#include <cstdint>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"
#include "layout/row_strides.h"
#include "layout/token_parts.h"

namespace kvrail {

// What two ranks have in common of one tensor, and where a row of it lies on either side: at
// page * page_stride + first_head + head * head_stride + slot * token_stride, for heads counted
// from the first common one.
struct TensorPath {
  struct Side {
    std::uint64_t page_stride_bytes = 0;
    std::uint64_t first_head_bytes = 0;
    std::uint64_t head_stride_bytes = 0;
    std::uint64_t token_stride_bytes = 0;
  };

  std::uint32_t tensor = 0;
  std::uint32_t heads = 0;
  std::uint64_t head_bytes = 0;
  Side source;
  Side target;
};

// The side of a rank that holds heads from `held_first` on; `first` is the first head in common.
TensorPath::Side side_of(std::uint64_t page_stride_bytes, const RowStrides& rows,
                         std::uint32_t held_first, std::uint32_t first);

// A part of a page, all common heads, cut into the largest ranges that are contiguous on both
// sides: equal ranges, `heads` x `tokens` of them.
struct PartRanges {
  std::uint64_t range_bytes = 0;
  std::uint32_t heads = 1;
  std::uint32_t tokens = 1;  // 1: each range spans all tokens of the part

  std::uint32_t units_each() const;
  std::uint64_t units() const { return std::uint64_t{heads} * tokens * units_each(); }
};

PartRanges ranges_of(const TensorPath& path, std::uint32_t tokens);

// Appends the runs of one part whose last token is in `finished`, of which the part holds a token.
// `run` has the path and the ranks, `ranges` is what ranges_of() says of the part.
void append_part(const TensorPath& path, const PartRanges& ranges, const PlannedRun& run,
                 const TokenParts& part, TokenRange finished, PageIndex source_page,
                 PageIndex target_page, std::vector<PlannedRun>& out);

}  // namespace kvrail

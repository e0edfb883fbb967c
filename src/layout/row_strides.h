#pragma once

#include <cstdint>
#include <optional>

#include "kvrail/kv_layout.h"
#include "layout/page_overlap.h"

namespace kvrail {

// From a row of a page to that of the next head, and of the next token.
struct RowStrides {
  std::uint64_t head_bytes = 0;
  std::uint64_t token_bytes = 0;

  bool operator==(const RowStrides&) const = default;
};

// What a placement of `held` heads says, or the dense strides where it says nothing. The group, the
// heads and the tensor are valid.
RowStrides row_strides(const CacheGroup& group, HeadRange held, const TensorPlacement& placement);

// All rows of the placement's pages; nullopt if they exceed 64 bits or overlap each other.
std::optional<RowSeries> rows_of(const CacheGroup& group, HeadRange held,
                                 const TensorPlacement& placement);

}  // namespace kvrail

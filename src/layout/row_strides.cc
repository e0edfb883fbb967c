#include "layout/row_strides.h"

#include <array>
#include <utility>

#include "layout/checked_math.h"

namespace kvrail {
namespace {

// Something that repeats: rows over tokens, over heads, pages over the pool.
struct Repeat {
  std::uint64_t stride_bytes = 0;
  std::uint64_t count = 1;
};

}  // namespace

RowStrides row_strides(const CacheGroup& group, HeadRange held, const TensorPlacement& placement) {
  const TensorLayout& tensor = group.tensors[placement.tensor];
  const std::uint64_t row = tensor.head_bytes;
  const RowStrides dense = tensor.order == PageOrder::kHnd
                               ? RowStrides{group.page_tokens * row, row}
                               : RowStrides{row, held.count * row};
  return {placement.head_stride_bytes != 0 ? placement.head_stride_bytes : dense.head_bytes,
          placement.token_stride_bytes != 0 ? placement.token_stride_bytes : dense.token_bytes};
}

std::optional<RowSeries> rows_of(const CacheGroup& group, HeadRange held,
                                 const TensorPlacement& placement) {
  const RowStrides strides = row_strides(group, held, placement);
  std::array<Repeat, 2> in_page = {Repeat{strides.head_bytes, held.count},
                                   Repeat{strides.token_bytes, group.page_tokens}};
  if (in_page[0].stride_bytes > in_page[1].stride_bytes) std::swap(in_page[0], in_page[1]);
  RowSeries rows;
  rows.region = placement.region;
  rows.base_bytes = placement.base_offset_bytes;
  rows.stride_bytes = placement.page_stride_bytes;
  rows.row_bytes = group.tensors[placement.tensor].head_bytes;
  std::uint64_t extent = rows.row_bytes;
  // Adds what repeats; false if pieces overlap or exceed 64 bits.
  const auto repeat = [&extent](const Repeat& repeat) {
    if (repeat.count > 1 && repeat.stride_bytes < extent) return false;
    const auto before_last = checked_product(repeat.stride_bytes, repeat.count - 1);
    const auto end = before_last ? checked_add(*before_last, extent) : std::nullopt;
    if (end) extent = *end;
    return end.has_value();
  };
  bool in_step = true;  // all strides are multiples of the pitch
  for (const Repeat& inner : in_page) {
    const bool adjoins = rows.pitch_bytes == 0 && inner.stride_bytes == extent;
    if (!repeat(inner)) return std::nullopt;
    if (inner.count == 1) continue;
    if (adjoins) {
      rows.row_bytes = extent;
    } else if (rows.pitch_bytes == 0) {
      rows.pitch_bytes = inner.stride_bytes;
    } else {
      in_step = in_step && inner.stride_bytes % rows.pitch_bytes == 0;
    }
  }
  rows.page_bytes = extent;
  if (rows.stride_bytes < extent || !repeat({rows.stride_bytes, group.page_count})) {
    return std::nullopt;
  }
  if (rows.pitch_bytes == 0 || !in_step) {
    // Without gaps, or with some that keep no step: the page counts as a whole.
    rows.row_bytes = rows.page_bytes;
    rows.pitch_bytes = rows.stride_bytes;
  }
  const auto end = checked_add(rows.base_bytes, extent);
  if (!end) return std::nullopt;
  rows.end_bytes = *end;
  return rows;
}

}  // namespace kvrail

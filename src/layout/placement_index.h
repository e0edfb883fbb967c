#pragma once

#include <cstdint>
#include <vector>

#include "kvrail/kv_layout.h"
#include "layout/row_strides.h"

namespace kvrail {

// Finds a placement by (rank, layer, tensor) in constant time. Built once from a valid layout, of
// which it keeps nothing; immutable.
class PlacementIndex {
 public:
  explicit PlacementIndex(const KvLayout& layout);

  struct Place {
    RegionId region;
    std::uint64_t base_offset_bytes = 0;
    std::uint64_t page_stride_bytes = 0;
    RowStrides rows;
  };

  // The tensor's place, or null if the rank does not hold it in that layer. All three must be
  // within the layout.
  const Place* find(RankIndex rank, LayerIndex layer, std::uint32_t tensor) const {
    const std::uint32_t row = rows_[rank.value() * layer_count_ + layer.value()];
    if (row == kNone) {
      return nullptr;
    }
    const std::uint32_t column =
        columns_[rank.value() * tensor_count_ + first_tensor_[layer.value()] + tensor];
    return column == kNone ? nullptr : &places_[row + column];
  }

  bool holds(RankIndex rank, LayerIndex layer) const {
    return rows_[rank.value() * layer_count_ + layer.value()] != kNone;
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  void add_rank(const KvLayout& layout, std::size_t rank);

  std::size_t layer_count_;
  std::size_t tensor_count_ = 0;             // of all groups
  std::vector<std::uint32_t> first_tensor_;  // by layer: its group's first among all tensors
  std::vector<std::uint32_t> rows_;          // by (rank, layer): where its places begin
  std::vector<std::uint32_t> columns_;  // by (rank, tensor of all groups): which place of a row
  std::vector<Place> places_;           // only those that exist
};

}  // namespace kvrail

#include "layout/placement_index.h"

namespace kvrail {

PlacementIndex::PlacementIndex(const KvLayout& layout)
    : layer_count_(layout.layer_count), first_tensor_(layout.layer_count) {
  for (const CacheGroup& group : layout.groups) {
    for (const LayerIndex layer : group.layers) {
      first_tensor_[layer.value()] = static_cast<std::uint32_t>(tensor_count_);
    }
    tensor_count_ += group.tensors.size();
  }
  rows_.assign(layout.ranks.size() * layer_count_, kNone);
  columns_.assign(layout.ranks.size() * tensor_count_, kNone);
  for (std::size_t rank = 0; rank < layout.ranks.size(); ++rank) {
    add_rank(layout, rank);
  }
}

void PlacementIndex::add_rank(const KvLayout& layout, std::size_t rank) {
  std::size_t column_of_group = rank * tensor_count_;
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    const RankGroup& held = layout.ranks[rank].groups[g];
    std::uint32_t tensors_held = 0;
    for (std::size_t t = 0; t < held.heads.size(); ++t) {
      if (held.heads[t].count > 0) {
        columns_[column_of_group + t] = tensors_held++;
      }
    }
    for (const TensorPlacement& placement : held.placements) {
      std::uint32_t& row = rows_[rank * layer_count_ + placement.layer.value()];
      if (row == kNone) {
        row = static_cast<std::uint32_t>(places_.size());
        places_.resize(places_.size() + tensors_held);
      }
      places_[row + columns_[column_of_group + placement.tensor]] = {
          placement.region, placement.base_offset_bytes, placement.page_stride_bytes,
          row_strides(layout.groups[g], held.heads[placement.tensor], placement)};
    }
    column_of_group += held.heads.size();
  }
}

}  // namespace kvrail

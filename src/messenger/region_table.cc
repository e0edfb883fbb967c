#include "messenger/region_table.h"

#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "layout/row_strides.h"

namespace kvrail {
namespace {

void check_extent(const MemoryRegion& region, std::uint64_t end, DeviceGroupId group,
                  const std::string& what) {
  if (region.device_group() != group) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} are in region {} of device group {}, but the rank is of group {}", what,
                    region.id().value(), region.device_group().value(), group.value()));
  }
  if (end > region.size_bytes()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} end at byte {} of region {}, which has {}", what, end,
                            region.id().value(), region.size_bytes()));
  }
}

}  // namespace

RegionId RegionTable::add(MemoryRegion region) {
  const RegionId id = region.id();
  regions_.emplace(id, std::move(region));
  return id;
}

const MemoryRegion& RegionTable::find(RegionId id, const std::string& what) const {
  const auto found = regions_.find(id);
  if (found == regions_.end()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} are in region {}, which register_memory did not return", what, id.value()));
  }
  return found->second;
}

void RegionTable::check(const KvLayout& layout) const {
  for (std::size_t r = 0; r < layout.ranks.size(); ++r) {
    const RankLayout& rank = layout.ranks[r];
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      const CacheGroup& group = layout.groups[g];
      for (const TensorPlacement& placement : rank.groups[g].placements) {
        const std::string what =
            fmt::format("the pages of tensor {} of layer {} on rank {}",
                        group.tensors[placement.tensor].name, placement.layer.value(), r);
        const RowSeries rows = *rows_of(group, rank.groups[g].heads[placement.tensor], placement);
        check_extent(find(placement.region, what), rows.end_bytes, rank.device_group, what);
      }
    }
  }
  for (const ContextLayout& context : layout.contexts) {
    // One past the last slot; validate() has seen that it does not overflow.
    const std::uint64_t end = context.base_offset_bytes +
                              (context.slot_count - 1) * context.slot_stride_bytes +
                              context.slot_bytes;
    check_extent(find(context.region, "the context slots"), end,
                 layout.ranks[context.rank.value()].device_group, "the context slots");
  }
}

std::vector<RegionEntry> RegionTable::entries(const KvLayout& layout) const {
  std::set<RegionId> named;
  for (const RankLayout& rank : layout.ranks) {
    for (const RankGroup& group : rank.groups) {
      for (const TensorPlacement& placement : group.placements) named.insert(placement.region);
    }
  }
  for (const ContextLayout& context : layout.contexts) named.insert(context.region);
  std::vector<RegionEntry> entries;
  entries.reserve(named.size());
  for (const RegionId id : named) {
    entries.push_back({id, find(id, "pages").descriptor()});
  }
  return entries;
}

}  // namespace kvrail

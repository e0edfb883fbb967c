#include "messenger/region_table.h"

#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

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

// One past the last byte of `count` pieces; validate() has seen that it does not overflow.
std::uint64_t end_of(std::uint64_t base, std::uint64_t count, std::uint64_t stride,
                     std::uint64_t size) {
  return base + (count - 1) * stride + size;
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
        const TensorLayout& tensor = group.tensors[placement.tensor];
        const std::string what = fmt::format("the pages of tensor {} of layer {} on rank {}",
                                             tensor.name, placement.layer.value(), r);
        const std::uint64_t page_bytes = std::uint64_t{group.page_tokens} *
                                         rank.groups[g].heads[placement.tensor].count *
                                         tensor.head_bytes;
        check_extent(find(placement.region, what),
                     end_of(placement.base_offset_bytes, group.page_count,
                            placement.page_stride_bytes, page_bytes),
                     rank.device_group, what);
      }
    }
  }
  if (const auto& context = layout.context) {
    check_extent(find(context->region, "the context slots"),
                 end_of(context->base_offset_bytes, context->slot_count, context->slot_stride_bytes,
                        context->slot_bytes),
                 layout.ranks[context->rank.value()].device_group, "the context slots");
  }
}

std::vector<RegionEntry> RegionTable::entries(const KvLayout& layout) const {
  std::set<RegionId> named;
  for (const RankLayout& rank : layout.ranks) {
    for (const RankGroup& group : rank.groups) {
      for (const TensorPlacement& placement : group.placements) named.insert(placement.region);
    }
  }
  if (layout.context) named.insert(layout.context->region);
  std::vector<RegionEntry> entries;
  entries.reserve(named.size());
  for (const RegionId id : named) {
    entries.push_back({id, find(id, "pages").descriptor()});
  }
  return entries;
}

}  // namespace kvrail

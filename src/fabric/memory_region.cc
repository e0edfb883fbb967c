#include "kvrail/memory_region.h"

#include <utility>

#include "fabric/region_holder.h"

namespace kvrail {

MemoryRegion::MemoryRegion(std::shared_ptr<RegionHolder> holder) : holder_(std::move(holder)) {}

RegionId MemoryRegion::id() const { return holder_->record().id; }

DeviceGroupId MemoryRegion::device_group() const { return holder_->record().group; }

std::byte* MemoryRegion::data() const { return holder_->record().data; }

std::uint64_t MemoryRegion::size_bytes() const { return holder_->record().size_bytes; }

std::vector<std::byte> MemoryRegion::descriptor() const {
  return holder_->record().descriptor.encode();
}

}  // namespace kvrail

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kvrail/ids.h"

namespace kvrail {

class RegionHolder;

// Memory registered with every rail of one device group; deregistered when destroyed.
//
// Ownership: the memory stays the caller's and must outlive the region; the region must outlive the
// submissions that name it as their source. It may outlive its engine. Threads: any thread, one at
// a time. Registration and deregistration run on the device group's worker between posts and so
// pause that group.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  explicit MemoryRegion(std::shared_ptr<RegionHolder> holder);
  MemoryRegion(MemoryRegion&&) noexcept = default;
  MemoryRegion& operator=(MemoryRegion&&) noexcept = default;
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;
  ~MemoryRegion() = default;

  explicit operator bool() const { return holder_ != nullptr; }
  RegionId id() const;
  DeviceGroupId device_group() const;
  std::byte* data() const;
  std::uint64_t size_bytes() const;

  // What a peer needs to write here: per rail the key and the base, and the length. A peer that
  // holds it can write anywhere in the region until the region is destroyed or the peer's links
  // are closed.
  std::vector<std::byte> descriptor() const;

 private:
  std::shared_ptr<RegionHolder> holder_;
};

}  // namespace kvrail

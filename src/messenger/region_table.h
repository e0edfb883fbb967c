#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/memory_region.h"
#include "kvrail/transfer_engine.h"
#include "wire/message.h"

namespace kvrail {

// The memory of a messenger, held registered until the table is destroyed.
//
// Threads: one at a time.
class RegionTable {
 public:
  RegionId add(MemoryRegion region);

  // Throws Error (kInvalidArgument) that names the first placement, or the context slots, that do
  // not lie in their region, or in a region of another device group than their rank's.
  void check(const KvLayout& layout) const;

  // What a peer needs to write into the regions that the layout names.
  std::vector<RegionEntry> entries(const KvLayout& layout) const;

 private:
  const MemoryRegion& find(RegionId id, const std::string& what) const;

  std::map<RegionId, MemoryRegion> regions_;
};

}  // namespace kvrail

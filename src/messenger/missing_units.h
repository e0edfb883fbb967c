#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvrail/decode_scheduler.h"
#include "kvrail/kv_layout.h"

namespace kvrail {

// What one device group of this node waits for.
struct MissingUnits {
  DeviceGroupId group;
  std::uint64_t missing = 0;
  std::uint64_t expected = 0;
};

// For people: "device group 0 lacks 12 of 96 units, of pages 7, 2, 30 of cache group full". Long
// lists are cut.
std::string describe_missing(const std::vector<MissingUnits>& groups,
                             const std::vector<MissingPages>& pages, const KvLayout& layout);

}  // namespace kvrail

#pragma once

#include <cstdint>
#include <vector>

#include "fabric/fabric_resource.h"
#include "fabric/introduction.h"
#include "kvrail/ids.h"

namespace kvrail {

// A local region: one registration per provider and rail of its device group.
//
// Threads: the registrations are made and closed by the group's worker; the rest is constant after
// construction. Submissions hold it, so that a write never names a record that is gone.
struct RegionRecord {
  RegionId id;
  DeviceGroupId group;
  std::byte* data = nullptr;
  std::uint64_t size_bytes = 0;
  // [provider][rail]
  std::vector<std::vector<MrPtr>> registrations;
  RegionDescriptor descriptor;
};

// A peer's region, imported for the provider that was chosen for that peer.
struct RemoteRegion {
  DeviceGroupId group;
  std::uint64_t size_bytes = 0;
  std::vector<RegionDescriptor::RailKey> rails;
};

}  // namespace kvrail

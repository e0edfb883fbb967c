#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "device_memory/gpu_pages.h"
#include "support/fabric_connection.h"
#include "support/fabric_lane.h"
#include "support/fabric_local_node.h"
#include "support/fabric_write_lists.h"

namespace kvrail {

// Pages at the sender and at the receiver of a route between two nodes of this process, on the host
// or on GPUs, registered and imported. The source holds the pattern of the seed, the target
// canaries.
class GpuLane {
 public:
  struct End {
    std::optional<std::uint16_t> gpu;
    std::uint64_t size_bytes;
    DeviceGroupId group = {};
  };
  GpuLane(FabricRoute route, End source, End target, std::uint64_t seed = 1);

  CounterId take_counter();
  CounterOutcome expect(CounterId counter, std::uint64_t units);
  WriteOutcome submit(CounterId counter, const std::vector<WriteRun>& runs);
  std::uint64_t arrived(CounterId counter);

  // Sends the runs under a counter of their own and waits for both ends, with success.
  testing::AssertionResult transfer(const std::vector<WriteRun>& runs);
  // The runs belong to what the target must hold.
  void note(const std::vector<WriteRun>& runs);
  // Every byte of the target and of the margins around it.
  testing::AssertionResult target_is_right() const;

  // Deregisters one end.
  void remove_source() { source_region_ = {}; }
  void remove_target() { target_region_ = {}; }

 private:
  FabricRoute route_;
  DeviceGroupId target_group_;
  GpuPages source_;
  GpuPages target_;
  std::vector<std::byte> sent_;      // what the source holds
  std::vector<std::byte> expected_;  // with margins
  MemoryRegion source_region_;
  MemoryRegion target_region_;
  RemoteRegionId remote_;
};

}  // namespace kvrail

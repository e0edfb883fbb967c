#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "support/fabric_connection.h"
#include "support/fabric_write_lists.h"

namespace kvrail {

inline constexpr std::byte kCanary{0xA5};

// A source at the sender and a target at the receiver of a route, registered and imported. The
// target starts as canaries, the source as the pattern of a seed.
//
// Threads: submit() any; the rest one at a time.
class FabricLane {
 public:
  struct Size {
    std::uint64_t source_bytes;
    std::uint64_t target_bytes;
    DeviceGroupId source_group;
    DeviceGroupId target_group;
  };
  FabricLane(FabricRoute route, Size size, std::uint64_t seed = 1);
  // The same regions on another route between the same nodes: they are imported there once more.
  FabricLane(const FabricLane& lane, FabricRoute route);

  TestMemory& source() { return *source_; }
  TestMemory& target() { return *target_; }
  FabricNode::Region source_region() const { return source_region_; }
  FabricNode::Region target_region() const { return target_region_; }
  RemoteRegionId remote() const { return remote_; }
  const FabricRoute& route() const { return route_; }

  CounterId take_counter();
  CounterOutcome expect(CounterId counter, std::uint64_t units);
  CounterReport peek(CounterId counter);
  void release(CounterId counter);

  WriteList list(CounterId counter, std::vector<WriteRun> runs) const;
  // Submits and waits for room; a refusal is a failure of the test.
  WriteOutcome submit(CounterId counter, std::vector<WriteRun> runs);

  // Sends the runs under a counter of their own and waits for both ends, with success.
  testing::AssertionResult transfer(const std::vector<WriteRun>& runs);
  // Sends a few runs and compares every byte of the target.
  testing::AssertionResult works();

  // The runs belong to what the target must hold, with the source as it is now.
  void note(std::span<const WriteRun> runs) { image_.apply(runs, *source_); }
  testing::AssertionResult target_is_right() const { return image_.matches(*target_); }

  // Deregisters both regions.
  void remove();

 private:
  FabricRoute route_;
  Size size_;
  std::shared_ptr<TestMemory> source_;
  std::shared_ptr<TestMemory> target_;
  FabricNode::Region source_region_;
  FabricNode::Region target_region_;
  RemoteRegionId remote_;
  ExpectedImage image_;
};

// The results, as text for a failure.
testing::AssertionResult written(const WriteOutcome& outcome, Deadline deadline = Deadline());
testing::AssertionResult counted(const CounterOutcome& outcome, std::uint64_t units,
                                 Deadline deadline = Deadline());

}  // namespace kvrail

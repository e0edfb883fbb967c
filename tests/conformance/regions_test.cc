#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

class Regions : public FabricTest {};

TEST_P(Regions, RegisteredWhileTrafficFlows) {
  FabricPair pair(GetParam());
  constexpr std::size_t kRuns = scaled(40'000);
  auto lane = pair.lane_to_other({4 * kMiB, kRuns * 4096, {}, {}});
  const auto runs = strided_runs(kRuns, 4000, 4096, 4 * kMiB);
  lane.note(runs);
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, kRuns);
  const auto sent = lane.submit(counter, runs);
  int registered = 0;
  do {
    auto memory = TestMemory::create(kMiB);
    const auto here = pair.local().register_memory({}, memory);
    const auto there = pair.other().register_memory({}, memory);
    EXPECT_NE(here.descriptor.size(), 0U);
    pair.local().deregister(here.id);
    pair.other().deregister(there.id);
    ++registered;
  } while (sent->calls() == 0 && registered < 10'000);
  ASSERT_TRUE(written(sent));
  ASSERT_TRUE(counted(reached, kRuns));
  EXPECT_TRUE(lane.target_is_right());
  RecordProperty("registered_meanwhile", registered);
  EXPECT_TRUE(pair.no_errors());
}

TEST_P(Regions, TheSameBufferTwiceAndOverlapping) {
  FabricPair pair(GetParam());
  const FabricRoute route = pair.connection().forward();
  auto source = TestMemory::create(kMiB);
  auto target = TestMemory::create(kMiB);
  source->fill(17);
  target->set(kCanary);
  ExpectedImage image(*target);
  struct Window {
    std::uint64_t offset;
    std::uint64_t size_bytes;
  };
  const std::vector<Window> windows = {
      {0, kMiB}, {0, kMiB}, {1000, kMiB / 2}, {kMiB / 4 + 1, kMiB / 2}, {kMiB - 5000, 5000}};
  std::vector<FabricNode::Region> sources;
  std::vector<FabricNode::Region> targets;
  for (const Window& window : windows) {
    sources.push_back(route.sender.register_memory({}, source, window.offset, window.size_bytes));
    targets.push_back(route.receiver.register_memory({}, target, window.offset, window.size_bytes));
  }
  for (std::size_t i = 0; i < windows.size(); ++i) {
    for (std::size_t j = i + 1; j < windows.size(); ++j) EXPECT_NE(sources[i].id, sources[j].id);
  }
  const auto send = [&](std::size_t i) {
    const std::vector<WriteRun> runs = {{i * 16, i * 100, 99, 1}, {7, 3000 + i * 100, 51, 2}};
    for (const WriteRun& run : runs) {
      image.apply(std::vector<WriteRun>{{run.source_offset + windows[i].offset,
                                         run.target_offset + windows[i].offset, run.size_bytes, 1}},
                  *source);
    }
    const auto remote = route.sender.import_region(route.receiver_at_sender, targets[i].descriptor);
    const CounterId counter = route.receiver.take_counter(route.sender_at_receiver, {});
    const auto reached = make_outcome<CounterResult>();
    route.receiver.expect(route.sender_at_receiver, {}, counter, 3, report_to(reached));
    const auto sent = make_outcome<WriteResult>();
    ASSERT_TRUE(route.sender
                    .submit(route.receiver_at_sender, {sources[i].id, remote, counter, runs},
                            FullQueue::kBlock, report_to(sent))
                    .ok());
    ASSERT_TRUE(written(sent));
    ASSERT_TRUE(counted(reached, 3));
  };
  for (std::size_t i = 0; i < windows.size(); ++i) send(i);
  EXPECT_TRUE(image.matches(*target));
  // One of two registrations of the same bytes goes; the other stays good.
  route.sender.deregister(sources[0].id);
  route.receiver.deregister(targets[0].id);
  route.receiver.deregister(targets[3].id);
  for (const std::size_t i : {1, 2, 4}) send(i);
  EXPECT_TRUE(image.matches(*target));
}

// One source goes to several targets, and a target is written from several sources.
TEST_P(Regions, ADescriptorMayBeImportedTwice) {
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other({4096, 8192, {}, {}});
  const FabricRoute route = pair.connection().forward();
  const auto again =
      route.sender.import_region(route.receiver_at_sender, lane.target_region().descriptor);
  EXPECT_NE(again, lane.remote());
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, 2);
  auto list = lane.list(counter, {{0, 4096, 100, 1}});
  list.target = again;
  const auto sent = make_outcome<WriteResult>();
  ASSERT_TRUE(
      route.sender.submit(route.receiver_at_sender, list, FullQueue::kBlock, report_to(sent)).ok());
  lane.note(list.runs);
  const std::vector<WriteRun> runs = {{50, 0, 100, 1}};
  lane.note(runs);
  ASSERT_TRUE(written(lane.submit(counter, runs)));
  ASSERT_TRUE(written(sent));
  ASSERT_TRUE(counted(reached, 2));
  EXPECT_TRUE(lane.target_is_right());
}

TEST_P(Regions, ARegionMayOutliveItsEngine) {
  auto memory = TestMemory::create(kMiB);
  MemoryRegion region;
  EXPECT_FALSE(bool(region));
  {
    LocalNode node(engine_options(GetParam()));
    region = node.engine().register_memory({}, memory->data(), memory->size_bytes());
    EXPECT_TRUE(bool(region));
    EXPECT_EQ(region.data(), memory->data());
    EXPECT_EQ(region.size_bytes(), kMiB);
    EXPECT_EQ(region.device_group(), DeviceGroupId());
    EXPECT_FALSE(region.descriptor().empty());
  }
  EXPECT_EQ(region.size_bytes(), kMiB);
  MemoryRegion moved = std::move(region);
  EXPECT_TRUE(bool(moved));
}

// Odd sizes and places: nothing of the library's asks for alignment.
TEST_P(Regions, AnySizeAndPlace) {
  FabricPair pair(GetParam());
  const FabricRoute route = pair.connection().forward();
  auto source = TestMemory::create(kMiB);
  auto target = TestMemory::create(kMiB);
  source->fill(18);
  target->set(kCanary);
  ExpectedImage image(*target);
  std::uint64_t offset = 1;
  for (const std::uint64_t size : {1, 2, 3, 7, 63, 4095, 4096, 4097, 65537}) {
    const auto from = route.sender.register_memory({}, source, offset, size);
    const auto to = route.receiver.register_memory({}, target, offset, size);
    const auto remote = route.sender.import_region(route.receiver_at_sender, to.descriptor);
    const CounterId counter = route.receiver.take_counter(route.sender_at_receiver, {});
    const auto reached = make_outcome<CounterResult>();
    route.receiver.expect(route.sender_at_receiver, {}, counter, 1, report_to(reached));
    const auto sent = make_outcome<WriteResult>();
    ASSERT_TRUE(route.sender
                    .submit(route.receiver_at_sender, {from.id, remote, counter, {{0, 0, size, 1}}},
                            FullQueue::kBlock, report_to(sent))
                    .ok());
    ASSERT_TRUE(written(sent));
    ASSERT_TRUE(counted(reached, 1));
    image.apply(std::vector<WriteRun>{{offset, offset, size, 1}}, *source);
    EXPECT_TRUE(image.matches(*target)) << size;
    offset += size + 3;
  }
}

KVRAIL_CONFORMANCE(Regions);

}  // namespace
}  // namespace kvrail

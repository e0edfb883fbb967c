#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device_memory/gpu_lane.h"
#include "support/fabric_pair.h"
#include "support/scripted_fabric.h"

// Writes between the memory of GPUs and of the host, over a provider that injects nothing then.

namespace kvrail {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const FabricConfig kScripted{"scripted", Placement::kOneProcess};

struct Ends {
  std::string name;
  std::optional<std::uint16_t> source;
  std::optional<std::uint16_t> target;
};

class GpuTransfer : public testing::TestWithParam<Ends> {};

TEST_P(GpuTransfer, OddSizesOverSeveralPages) {
  FabricPair pair(kScripted, options_with(GetParam().source), options_with(GetParam().target));
  GpuLane lane(pair.connection().forward(), {GetParam().source, 300'001},
               {GetParam().target, 700'003});
  EXPECT_TRUE(lane.transfer({{0, 1, 1, 1},
                             {3, 5, 4095, 1},
                             {5001, 8191, 8193, 2},
                             {0, 20'001, 300'001, 3},
                             {299'999, 700'001, 2, 1}}));
  EXPECT_TRUE(lane.target_is_right());
  std::mt19937_64 random(5);
  for (const RunShape shape : {RunShape::kMixed, RunShape::kAdjacent, RunShape::kGathered}) {
    ASSERT_TRUE(lane.transfer(random_runs(random, 300'001, 700'003, shape, {.max_units = 3})));
    ASSERT_TRUE(lane.target_is_right());
  }
  EXPECT_TRUE(pair.no_errors());
}

// Grants are written like everything else, and there are far more of them than words to write them
// from.
TEST_P(GpuTransfer, ManyMoreImmediatesThanCredit) {
  const ScriptInForce script(kUnorderedScript);
  for (const std::uint32_t credit : {2U, 16U}) {
    SCOPED_TRACE(credit);
    auto source = options_with(GetParam().source);
    auto target = options_with(GetParam().target);
    source.receive_credit = target.receive_credit = credit;
    FabricPair pair(kScripted, with_rails(source, 2), with_rails(target, 2));
    constexpr std::size_t kCount = scaled(2000);
    const auto runs = strided_runs(kCount, 67, 129, 64 * 1024);
    GpuLane there(pair.connection().forward(), {GetParam().source, 64 * 1024},
                  {GetParam().target, kCount * 129}, 1);
    GpuLane back(pair.connection().backward(), {GetParam().target, 64 * 1024},
                 {GetParam().source, kCount * 129}, 2);
    std::vector<WriteOutcome> sent;
    std::vector<CounterOutcome> reached;
    for (GpuLane* lane : {&there, &back}) {
      lane->note(runs);
      const CounterId counter = lane->take_counter();
      reached.push_back(lane->expect(counter, kCount));
      sent.push_back(lane->submit(counter, runs));
    }
    for (const auto& outcome : sent) EXPECT_TRUE(written(outcome));
    for (const auto& outcome : reached) EXPECT_TRUE(counted(outcome, kCount));
    EXPECT_TRUE(there.target_is_right());
    EXPECT_TRUE(back.target_is_right());
    for (const auto& side : {pair.connection().initiator(), pair.connection().acceptor()}) {
      const LinkStats stats = peer_stats(*side.node, side.peer);
      EXPECT_LE(stats.max_immediates_outstanding, 2 * credit);
      EXPECT_GT(stats.grants_received, 0U);
      EXPECT_EQ(stats.writes_completed, kCount);
    }
    EXPECT_TRUE(pair.no_errors());
  }
  EXPECT_EQ(script.count(scripted::Count::kOverruns), 0U);
}

INSTANTIATE_TEST_SUITE_P(Scripted, GpuTransfer,
                         testing::Values(Ends{"gpu_to_gpu", 0, 1}, Ends{"gpu_to_itself", 0, 0},
                                         Ends{"host_to_gpu", kHost, 1},
                                         Ends{"gpu_to_host", 1, kHost}),
                         [](const auto& info) { return info.param.name; });

// A GPU for each group, and one group of the host's beside them.
TEST(GpuGroups, EachHasItsOwnGpu) {
  auto options = options_with(0);
  options.device_groups.resize(3);
  options.device_groups[1].cuda_device = CudaDeviceId(1);
  FabricPair pair(kScripted, options, options);
  EXPECT_THAT(pair.local().describe(), HasSubstr("device group 0: GPU 0 (fake GPU 0)"));
  EXPECT_THAT(pair.local().describe(), HasSubstr("device group 1: GPU 1 (fake GPU 1)"));
  EXPECT_THAT(pair.local().describe(), Not(HasSubstr("device group 2")));
  const std::vector<std::optional<std::uint16_t>> gpus = {0, 1, kHost};
  for (std::uint16_t from = 0; from < gpus.size(); ++from) {
    for (std::uint16_t to = 0; to < gpus.size(); ++to) {
      GpuLane lane(pair.connection().forward(), {gpus[from], 10'001, DeviceGroupId(from)},
                   {gpus[to], 10'001, DeviceGroupId(to)}, from * 3u + to);
      EXPECT_TRUE(lane.transfer({{0, 0, 10'001, 1}}));
      EXPECT_TRUE(lane.target_is_right()) << from << " to " << to;
    }
  }
  EXPECT_TRUE(pair.no_errors());
}

// The host's memory in a group that has a GPU is the host's.
TEST(GpuGroups, TakeMemoryOfTheHostAsWell) {
  FabricPair pair(kScripted, options_with(0), options_with(1));
  GpuLane there(pair.connection().forward(), {kHost, 50'001}, {1, 50'001}, 1);
  GpuLane back(pair.connection().backward(), {1, 50'001}, {kHost, 50'001}, 2);
  GpuLane host(pair.connection().forward(), {kHost, 50'001}, {kHost, 50'001}, 3);
  for (GpuLane* lane : {&there, &back, &host}) {
    EXPECT_TRUE(lane->transfer({{0, 1, 50'000, 1}}));
    EXPECT_TRUE(lane->target_is_right());
  }
}

// shm of a libfabric without CUDA says that it reaches GPUs, and injects nothing then: the grants
// are written there as well, by a provider that is no test's.
TEST(GpuGroups, GrantsAreWrittenOverShmToo) {
  const FabricConfig shm{"shm", Placement::kOneProcess};
  auto options = options_with(0, "shm");
  options.receive_credit = 8;
  FabricPair pair(shm, options, options);
  if (pair.local().describe().find("injects 0 bytes") == std::string::npos) {
    GTEST_SKIP() << "this libfabric's injects";
  }
  constexpr std::size_t kCount = 2000;
  for (const FabricRoute& route : {pair.connection().forward(), pair.connection().backward()}) {
    GpuLane lane(route, {kHost, 64 * 1024}, {kHost, kCount * 129});
    EXPECT_TRUE(lane.transfer(strided_runs(kCount, 67, 129, 64 * 1024)));
    EXPECT_TRUE(lane.target_is_right());
  }
  const auto& side = pair.connection().initiator();
  EXPECT_GT(peer_stats(*side.node, side.peer).grants_received, 16U);
  EXPECT_TRUE(pair.no_errors());
}

}  // namespace
}  // namespace kvrail

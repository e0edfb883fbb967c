#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device_memory/gpu_lane.h"
#include "support/fabric_pair.h"
#include "support/scripted_fabric.h"

// What a NIC has written is seen by the fake GPU after a flush only, unless it says otherwise.

namespace kvrail {
namespace {

using ::testing::HasSubstr;

const FabricConfig kScripted{"scripted", Placement::kOneProcess};

const std::vector<WriteRun> kFirst = {{0, 0, 5001, 1}};
const std::vector<WriteRun> kSecond = {{0, 5001, 4999, 1}};

class Flush : public testing::Test {
 protected:
  const ScriptInForce script_{""};
};

TEST_F(Flush, ComesWithTheCounterAndNotBefore) {
  FabricPair pair(kScripted, options_with(0), options_with(1));
  GpuLane lane(pair.connection().forward(), {0, 10'000}, {1, 10'000});
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, 2);
  ASSERT_TRUE(written(lane.submit(counter, kFirst)));
  ASSERT_TRUE(poll_until([&] { return lane.arrived(counter) == 1; }));
  EXPECT_TRUE(lane.target_is_right()) << "seen without a flush: this test proves nothing";
  ASSERT_TRUE(written(lane.submit(counter, kSecond)));
  ASSERT_TRUE(counted(reached, 2));
  lane.note(kFirst);
  lane.note(kSecond);
  EXPECT_TRUE(lane.target_is_right());
}

// What has come already is flushed when it is expected.
TEST_F(Flush, ComesWithALateExpectation) {
  FabricPair pair(kScripted, options_with(0), options_with(1));
  GpuLane lane(pair.connection().forward(), {0, 10'000}, {1, 10'000});
  const CounterId counter = lane.take_counter();
  ASSERT_TRUE(written(lane.submit(counter, kFirst)));
  ASSERT_TRUE(poll_until([&] { return lane.arrived(counter) == 1; }));
  ASSERT_TRUE(counted(lane.expect(counter, 1), 1));
  lane.note(kFirst);
  EXPECT_TRUE(lane.target_is_right());
}

// Else it would come with that of another counter, over what was computed there meanwhile.
TEST_F(Flush, ComesWithTheFence) {
  FabricPair pair(kScripted, options_with(0), options_with(1));
  GpuLane lane(pair.connection().forward(), {0, 10'000}, {1, 10'000});
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, 2);
  ASSERT_TRUE(written(lane.submit(counter, kFirst)));
  ASSERT_TRUE(poll_until([&] { return lane.arrived(counter) == 1; }));
  EXPECT_TRUE(lane.target_is_right()) << "seen without a flush: this test proves nothing";
  ASSERT_TRUE(close_side(pair.connection().acceptor()));
  lane.note(kFirst);
  EXPECT_TRUE(lane.target_is_right());
}

TEST_F(Flush, ComesWhenItIsAskedFor) {
  FabricPair pair(kScripted, options_with(0), options_with(1));
  GpuLane lane(pair.connection().forward(), {0, 10'000}, {1, 10'000});
  const CounterId counter = lane.take_counter();
  ASSERT_TRUE(written(lane.submit(counter, kFirst)));
  ASSERT_TRUE(poll_until([&] { return lane.arrived(counter) == 1; }));
  EXPECT_TRUE(lane.target_is_right()) << "seen without a flush: this test proves nothing";
  const TransferEngine& receiver = dynamic_cast<LocalNode&>(pair.other()).engine();
  EXPECT_TRUE(receiver.show_arrivals(DeviceGroupId(0)).ok());
  lane.note(kFirst);
  EXPECT_TRUE(lane.target_is_right());
  EXPECT_THROW(static_cast<void>(receiver.show_arrivals(DeviceGroupId(1))), Error);
}

TEST_F(Flush, IsLeftOutWhereTheGpuSeesWritesAtOnce) {
  const Variable order("KVRAIL_FAKE_CUDA_ORDER", "owner");
  FabricPair pair(kScripted, options_with(0), options_with(1));
  EXPECT_THAT(pair.local().describe(), HasSubstr("at once"));
  GpuLane lane(pair.connection().forward(), {0, 10'000}, {1, 10'000});
  const CounterId counter = lane.take_counter();
  ASSERT_TRUE(written(lane.submit(counter, kFirst)));
  ASSERT_TRUE(poll_until([&] { return lane.arrived(counter) == 1; }));
  lane.note(kFirst);
  EXPECT_TRUE(lane.target_is_right());
}

TEST_F(Flush, ThatFailsIsTheCountersFailure) {
  FabricPair pair(kScripted, options_with(0), options_with(1));
  GpuLane lane(pair.connection().forward(), {0, 10'000}, {1, 10'000});
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, 1);
  const Variable order("KVRAIL_FAKE_CUDA_ORDER", "none");
  ASSERT_TRUE(written(lane.submit(counter, kFirst)));
  const auto result = reached->wait();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status.code(), ErrorCode::kFabric);
  EXPECT_THAT(result->status.text(), HasSubstr("GPU 1"));
  EXPECT_EQ(reached->calls(), 1);
}

}  // namespace
}  // namespace kvrail

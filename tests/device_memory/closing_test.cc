#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "device_memory/gpu_lane.h"
#include "support/fabric_pair.h"
#include "support/scripted_fabric.h"

// Regions, peers and engines that go in mid-transfer, and engines with and without a GPU in one
// process.

namespace kvrail {
namespace {

const FabricConfig kScripted{"scripted", Placement::kOneProcess};
constexpr std::size_t kCount = 2000;
// Slow enough that most is under way when the end comes: writes as well as grants.
constexpr char kSlow[] = "reorder window=8; delay min_us=100 max_us=5000";

std::vector<WriteRun> many_runs() { return strided_runs(kCount, 67, 129, 64 * 1024); }

TransferEngineOptions small_credit(std::optional<std::uint16_t> gpu) {
  auto options = options_with(gpu);
  options.receive_credit = 64;
  return options;
}

// Writes both ways, with grants behind them, some of which have come.
class MidTransfer : public testing::Test {
 protected:
  MidTransfer() {
    for (GpuLane* lane : {&*there_, &*back_}) {
      const CounterId counter = lane->take_counter();
      reached_.push_back(lane->expect(counter, kCount));
      sent_.push_back(lane->submit(counter, many_runs()));
      EXPECT_TRUE(poll_until([&] { return lane->arrived(counter) > 200; }));
    }
  }

  // Both ends of both ways have said so, once each.
  void expect_all_ended() {
    for (const auto& outcome : sent_) {
      ASSERT_TRUE(outcome->wait());
      EXPECT_EQ(outcome->calls(), 1);
    }
    for (const auto& outcome : reached_) {
      ASSERT_TRUE(outcome->wait());
      EXPECT_EQ(outcome->calls(), 1);
      EXPECT_FALSE(outcome->wait()->status.ok());
    }
  }

  ScriptInForce script_{kSlow};
  FabricPair pair_{kScripted, small_credit(0), small_credit(1)};
  std::optional<GpuLane> there_{std::in_place, pair_.connection().forward(),
                                GpuLane::End{0, 64 * 1024}, GpuLane::End{1, kCount * 129}, 1};
  std::optional<GpuLane> back_{std::in_place, pair_.connection().backward(),
                               GpuLane::End{1, 64 * 1024}, GpuLane::End{0, kCount * 129}, 2};
  std::vector<WriteOutcome> sent_;
  std::vector<CounterOutcome> reached_;
};

TEST_F(MidTransfer, ThePeerIsClosed) {
  EXPECT_TRUE(pair_.connection().close());
  expect_all_ended();
}

// The words that grants are written from stay in use then.
TEST_F(MidTransfer, ThePeerIsClosedThoughNoGrantCompletes) {
  script_.change("drop what=completion");
  const auto& side = pair_.connection().acceptor();
  const auto grants = [&] { return peer_stats(*side.node, side.peer).grants_sent; };
  const std::uint64_t before = grants();
  EXPECT_TRUE(poll_until([&] { return grants() > before + 2; }));
  EXPECT_TRUE(pair_.connection().close());
  expect_all_ended();
}

// The memory is freed right after the fence: what still landed there would end the process.
TEST_F(MidTransfer, AnEngineIsDestroyedAndItsMemoryFreed) {
  pair_.other().destroy_engine();
  there_.reset();
  back_.reset();
  pair_.local().destroy_engine();
  expect_all_ended();
}

TEST_F(MidTransfer, ATargetIsDeregistered) {
  there_->remove_target();
  const auto sent = sent_[0]->wait();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->status.code(), ErrorCode::kFabric) << sent->status.text();
  // The other way goes on.
  EXPECT_TRUE(written(sent_[1]));
  EXPECT_TRUE(counted(reached_[1], kCount));
  back_->note(many_runs());
  EXPECT_TRUE(back_->target_is_right());
}

TEST(GpuEngines, OneWithAGpuAndOneWithoutInOneProcess) {
  const ScriptInForce script(kUnorderedScript);
  LocalNode gpu(options_with(0));
  LocalNode host(options_with(kHost));
  LocalNode tcp(options_with(kHost, "tcp"));
  LocalNode other_tcp(options_with(kHost, "tcp"));
  FabricConnection mixed(gpu, host);
  FabricConnection plain(tcp, other_tcp);
  GpuLane there(mixed.forward(), {0, 100'001}, {kHost, 100'001}, 1);
  GpuLane back(mixed.backward(), {kHost, 100'001}, {0, 100'001}, 2);
  GpuLane over_tcp(plain.forward(), {kHost, 100'001}, {kHost, 100'001}, 3);
  for (GpuLane* lane : {&there, &back, &over_tcp}) {
    EXPECT_TRUE(lane->transfer({{0, 1, 100'000, 1}}));
    EXPECT_TRUE(lane->target_is_right());
  }
  // Each outlives the other.
  gpu.destroy_engine();
  EXPECT_TRUE(over_tcp.transfer({{1, 0, 100'000, 1}}));
  EXPECT_TRUE(over_tcp.target_is_right());
}

}  // namespace
}  // namespace kvrail

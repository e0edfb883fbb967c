#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kSource = 4 * kMiB;
constexpr std::uint64_t kTarget = 3 * kMiB;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

class InvalidSubmission : public FabricTest {
 protected:
  // Refused, with a text, without a callback.
  void expect_refused(WriteList list, ErrorCode code) {
    auto outcome = make_outcome<WriteResult>();
    const Status status =
        pair_.local().submit(peer_, std::move(list), FullQueue::kBlock, report_to(outcome));
    EXPECT_EQ(status.code(), code) << status.text();
    EXPECT_FALSE(status.text().empty());
    EXPECT_EQ(outcome->calls(), 0);
    refused_.push_back(outcome);
  }
  void expect_run_refused(WriteRun run) {
    SCOPED_TRACE(testing::Message()
                 << run.source_offset << " -> " << run.target_offset << ", " << run.size_bytes
                 << " bytes, " << run.units << " units, " << run.count << " ranges");
    expect_refused(lane_.list(counter_, {run}), ErrorCode::kInvalidArgument);
    // Anywhere in the list: nothing of it is posted.
    expect_refused(lane_.list(counter_, {{0, 0, 64, 1}, run, {64, 64, 64, 1}}),
                   ErrorCode::kInvalidArgument);
  }
  void expect_untouched() {
    EXPECT_EQ(peer_stats(pair_.local(), peer_).writes_posted, 0U);
    EXPECT_EQ(lane_.peek(counter_).units_arrived, 0U);
    EXPECT_TRUE(lane_.target_is_right());
    // The link is as good as new.
    ASSERT_TRUE(lane_.works());
    for (const auto& outcome : refused_) EXPECT_EQ(outcome->calls(), 0);
    EXPECT_TRUE(pair_.no_errors());
  }

  FabricPair pair_{GetParam()};
  FabricLane lane_ = pair_.lane_to_other({kSource, kTarget, {}, {}});
  const PeerId peer_ = pair_.connection().initiator().peer;
  const CounterId counter_ = lane_.take_counter();
  std::vector<WriteOutcome> refused_;
};

TEST_P(InvalidSubmission, OutsideOfARegion) {
  expect_run_refused({kSource, 0, 1, 1});
  expect_run_refused({kSource - 63, 0, 64, 1});
  expect_run_refused({0, kTarget, 1, 1});
  expect_run_refused({0, kTarget - 63, 64, 1});
  expect_run_refused({0, 0, kTarget + 1, 4});
  expect_run_refused({kMost, 0, 1, 1});
  expect_run_refused({kMost - 10, 0, 64, 1});
  expect_run_refused({0, kMost, 1, 1});
  expect_run_refused({0, kMost - 10, 64, 1});
  expect_run_refused({1, 1, kMost, std::numeric_limits<std::uint32_t>::max()});
  expect_run_refused({64, 0, kMost - 63, std::numeric_limits<std::uint32_t>::max()});
  expect_untouched();
}

TEST_P(InvalidSubmission, SizesAndUnits) {
  expect_run_refused({0, 0, 0, 1});
  expect_run_refused({0, 0, 64, 0});
  expect_run_refused({0, 0, 64, 65});
  expect_run_refused({0, 0, kMaxUnitBytes + 1, 1});
  expect_run_refused({0, 0, 2 * kMaxUnitBytes + 1, 2});
  expect_untouched();
}

TEST_P(InvalidSubmission, RangesOfARun) {
  constexpr std::uint32_t kMany = std::numeric_limits<std::uint32_t>::max();
  expect_run_refused({0, 0, 64, 1, 0, 64, 64});
  expect_run_refused({0, 0, 64, 1, 0, 0, 0});
  expect_run_refused({0, 0, 64, 1, 2, 64, 63});
  expect_run_refused({0, 0, 64, 1, 2, 64, 0});
  expect_run_refused({0, 0, 64, 1, 2, kSource - 63, 64});
  expect_run_refused({0, 0, 64, 1, 2, 64, kTarget - 63});
  expect_run_refused({kSource - 64, 0, 64, 1, 2, 1, 64});
  expect_run_refused({0, 0, 64, 1, kTarget / 64 + 1, 0, 64});
  expect_run_refused({0, 0, 64, 1, kMany, 0, 64});
  expect_run_refused({0, 0, 64, 1, 2, kMost, 64});
  expect_run_refused({0, 0, 64, 1, 2, 64, kMost});
  // The last range's offset overflows to one inside.
  expect_run_refused({64, 0, 64, 1, 2, kMost - 63, 64});
  expect_run_refused({0, 64, 64, 1, 2, 64, kMost - 63});
  expect_run_refused({0, 0, 64, 1, 5, 64, std::uint64_t{1} << 62});
  expect_untouched();
}

TEST_P(InvalidSubmission, UnknownRegionsAndCounters) {
  WriteList list = lane_.list(counter_, {{0, 0, 64, 1}});
  list.source = RegionId(123'456);
  expect_refused(list, ErrorCode::kNotFound);
  list = lane_.list(counter_, {{0, 0, 64, 1}});
  list.target = RemoteRegionId(123'456);
  expect_refused(list, ErrorCode::kNotFound);
  for (const std::uint32_t id : {0U, 1U << 20, std::numeric_limits<std::uint32_t>::max()}) {
    expect_refused(lane_.list(CounterId(id), {{0, 0, 64, 1}}), ErrorCode::kInvalidArgument);
  }
  expect_untouched();
}

TEST_P(InvalidSubmission, UnknownPeers) {
  const PeerId nobody(987'654);
  auto& engine = pair_.local().engine();
  const Status status = engine.submit(
      nobody, lane_.list(counter_, {{0, 0, 64, 1}}), FullQueue::kBlock,
      [](const Status&, const WriteReport&) { FAIL() << "a refused submission was completed"; });
  EXPECT_EQ(status.code(), ErrorCode::kNotFound) << status.text();
  EXPECT_THROW(engine.take_counter(nobody, {}), Error);
  EXPECT_THROW(engine.import_region(nobody, lane_.target_region().descriptor), Error);
  EXPECT_THROW(engine.confirm_peer(nobody, {}), Error);
  EXPECT_THROW(static_cast<void>(engine.describe_peer(nobody)), Error);
  // What is only told or rung may be about a peer that is gone.
  engine.wake_peer(nobody);
  engine.confirm_remote_closed(nobody);
  expect_untouched();
}

// A region of one peer is none of another's.
TEST_P(InvalidSubmission, RegionOfAnotherPeer) {
  LocalNode third(engine_options(GetParam()));
  FabricConnection connection(pair_.local(), third);
  FabricLane lane(connection.forward(), {65536, 65536, {}, {}});
  WriteList list = lane_.list(counter_, {{0, 0, 64, 1}});
  list.target = lane.remote();
  expect_refused(list, ErrorCode::kNotFound);
  EXPECT_TRUE(lane.target_is_right());
  expect_untouched();
}

TEST_P(InvalidSubmission, DeviceGroupsThatDoNotExist) {
  auto& engine = pair_.local().engine();
  auto memory = TestMemory::create(4096);
  EXPECT_THROW(static_cast<void>(engine.register_memory(DeviceGroupId(7), memory->data(), 4096)),
               Error);
  EXPECT_THROW(static_cast<void>(engine.register_memory(DeviceGroupId(0), memory->data(), 0)),
               Error);
  EXPECT_THROW(engine.take_counter(peer_, DeviceGroupId(7)), Error);
  expect_untouched();
}

// A source that was deregistered is refused, not read.
TEST_P(InvalidSubmission, SourceThatWasDeregistered) {
  auto lane = pair_.lane_to_other({4096, 4096, {}, {}});
  pair_.local().deregister(lane.source_region().id);
  expect_refused(lane.list(counter_, {{0, 0, 64, 1}}), ErrorCode::kNotFound);
  expect_untouched();
}

// What was looked up for one submission does not serve the next one when the region is gone.
TEST_P(InvalidSubmission, SourceThatWasDeregisteredAfterItWasSent) {
  auto lane = pair_.lane_to_other({65536, 65536, {}, {}});
  ASSERT_TRUE(lane.works());
  pair_.local().deregister(lane.source_region().id);
  expect_refused(lane.list(counter_, {{0, 0, 64, 1}}), ErrorCode::kNotFound);
  ASSERT_TRUE(lane_.works());
  for (const auto& outcome : refused_) EXPECT_EQ(outcome->calls(), 0);
}

TEST_P(InvalidSubmission, AnEmptyListPostsNothing) {
  auto outcome = make_outcome<WriteResult>();
  const Status status =
      pair_.local().submit(peer_, lane_.list(counter_, {}), FullQueue::kBlock, report_to(outcome));
  if (status.ok()) {
    EXPECT_TRUE(written(outcome));
  } else {
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(outcome->calls(), 0);
  }
  expect_untouched();
}

KVRAIL_CONFORMANCE(InvalidSubmission);

}  // namespace
}  // namespace kvrail

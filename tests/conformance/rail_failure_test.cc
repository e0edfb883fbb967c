#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint16_t kRails = 4;

// Writes into a region that is gone fail where the provider tells of it: over tcp, with proof of
// delivery.
class RailFailures : public FabricTest {
 protected:
  static TransferEngineOptions options() {
    auto options = with_rails(engine_options(GetParam()), kRails);
    options.delivery = Delivery::kProved;
    return options;
  }
  static bool tells_of_refused_writes() { return GetParam().over_tcp(); }
};

std::uint64_t failures_of(FabricNode& node, RailId id) {
  std::uint64_t failures = 0;
  for (const RailStats& rail : node.stats().rails) {
    if (rail.device_group == id.group && rail.rail == id.rail) failures += rail.failures;
  }
  return failures;
}

TEST_P(RailFailures, AreToldOncePerRailAndTheOthersGoOn) {
  if (!tells_of_refused_writes()) GTEST_SKIP() << "this provider does not tell of them";
  FabricPair pair(GetParam(), options(), options(), {{}, {}, true});
  auto lane = pair.lane_to_other({kMiB, 2 * kMiB, {}, {}});
  ASSERT_TRUE(lane.works());
  const auto& told = pair.connection().initiator().rail_failures;
  std::set<RailId> failed;
  while (failed.size() < kRails) {
    auto gone = pair.lane_to_other({4096, 8192, {}, {}});
    const CounterId counter = gone.take_counter();
    pair.other().deregister(gone.target_region().id);
    const auto refused = gone.submit(counter, {{0, 0, 4096, 1}});
    const auto result = refused->wait();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->status.code(), ErrorCode::kFabric);
    ASSERT_EQ(told->entries().size(), failed.size() + 1);
    const RailFailure failure = told->entries().back();
    EXPECT_EQ(failure.status.code(), ErrorCode::kFabric);
    EXPECT_EQ(failure.remote, failure.local);
    EXPECT_TRUE(failed.insert(failure.local).second);
    EXPECT_EQ(failures_of(pair.local(), failure.local), 1U);
    if (failed.size() == kRails) break;

    const auto before = bytes_by_rail(pair.local());
    ASSERT_TRUE(lane.transfer(strided_runs(128, 4000, 8000, kMiB)));
    ASSERT_TRUE(lane.target_is_right());
    const auto after = bytes_by_rail(pair.local());
    for (std::uint16_t rail = 0; rail < kRails; ++rail) {
      const bool is_failed = failed.count({{}, RailIndex(rail)}) != 0;
      EXPECT_EQ(after[rail] == before[rail], is_failed) << "rail " << rail;
    }
  }
  const auto refused = lane.submit(lane.take_counter(), {{0, 0, 4096, 1}});
  const auto result = refused->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kFabric);
  EXPECT_EQ(told->entries().size(), kRails);
  EXPECT_TRUE(pair.connection().initiator().errors->entries().empty());
  EXPECT_TRUE(pair.connection().acceptor().errors->entries().empty());
  ASSERT_TRUE(pair.connection().close());
}

// Without a watcher it is an error of the peer, as any.
TEST_P(RailFailures, AreErrorsWhereNobodyWatches) {
  if (!tells_of_refused_writes()) GTEST_SKIP() << "this provider does not tell of them";
  FabricPair pair(GetParam(), options(), options());
  auto gone = pair.lane_to_other({4096, 8192, {}, {}});
  const CounterId counter = gone.take_counter();
  pair.other().deregister(gone.target_region().id);
  ASSERT_TRUE(gone.submit(counter, {{0, 0, 4096, 1}})->wait().has_value());
  EXPECT_EQ(pair.connection().initiator().errors->entries().size(), 1U);
  EXPECT_TRUE(pair.connection().initiator().rail_failures->entries().empty());
}

// A peer that does not keep to what was agreed is no matter of a rail.
TEST_P(RailFailures, AreNotTheErrorsOfAPeer) {
  FabricPair pair(GetParam(), options(), options(), {{}, {}, true});
  auto lane = pair.lane_to_other({4096, 8192, {}, {}});
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, 1);
  ASSERT_TRUE(written(lane.submit(counter, {{0, 0, 4096, 2}})));
  const auto result = reached->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kUnitsExceeded);
  const auto& side = pair.connection().acceptor();
  EXPECT_TRUE(poll_until([&] { return side.errors->entries().size() == 1; }));
  EXPECT_TRUE(side.rail_failures->entries().empty());
}

KVRAIL_CONFORMANCE(RailFailures);

}  // namespace
}  // namespace kvrail

#include <iostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

class Churn : public FabricTest {};

void compare(const FabricConfig& config, const ProcessUsage& before, const ProcessUsage& after,
             std::uint64_t rails = 1) {
  // Of large endpoints the allocator keeps the buffers of two per rail at most, where a leak would
  // keep those of dozens.
  const std::uint64_t slack = config.has_large_endpoints() ? rails * 160 * kMiB : 8 * kMiB;
  EXPECT_LE(after.descriptors, before.descriptors + 4);
  EXPECT_LE(after.threads, before.threads);
  // Sanitizers keep freed memory for a while.
  if (!kSanitized) {
    EXPECT_LE(after.resident_bytes, before.resident_bytes + slack);
  }
}

TEST_P(Churn, PeersThatComeAndGoLeaveNothingBehind) {
  LocalNode local(engine_options(GetParam()));
  std::unique_ptr<FabricNode> other;
  if (GetParam().two_processes()) {
    other = std::make_unique<RemoteNode>(engine_options(GetParam()));
  } else {
    other = std::make_unique<LocalNode>(engine_options(GetParam()));
  }
  constexpr int kPeers = scaled(300);
  constexpr int kSettled = kPeers / 4;
  ProcessUsage local_before;
  ProcessUsage other_before;
  for (int i = 0; i < kPeers; ++i) {
    SCOPED_TRACE(testing::Message() << "peer " << i);
    if (i == kSettled) {
      local_before = local.usage();
      other_before = other->usage();
    }
    FabricConnection connection(local, *other);
    FabricLane lane(connection.forward(), {64 * 1024, 128 * 1024, {}, {}});
    ASSERT_TRUE(lane.works());
    ASSERT_TRUE(connection.close());
    lane.remove();
  }
  const ProcessUsage local_after = local.usage();
  compare(GetParam(), local_before, local_after);
  compare(GetParam(), other_before, other->usage());
  RecordProperty("descriptors", static_cast<int>(local_after.descriptors));
  RecordProperty("resident_growth_bytes",
                 static_cast<int>(local_after.resident_bytes - local_before.resident_bytes));
  EXPECT_TRUE(local.stats().peers.empty());
}

// One pair of nodes that is introduced again and again, each time without another rail, while the
// links before are still open.
TEST_P(Churn, LinksThatAreReplacedLeaveNothingBehind) {
  constexpr std::uint16_t kRails = 4;
  const auto options = with_rails(engine_options(GetParam()), kRails);
  LocalNode local(options);
  std::unique_ptr<FabricNode> other;
  if (GetParam().two_processes()) {
    other = std::make_unique<RemoteNode>(options);
  } else {
    other = std::make_unique<LocalNode>(options);
  }
  const int replacements = GetParam().has_large_endpoints() ? scaled(12) : scaled(100);
  auto connection = std::make_unique<FabricConnection>(local, *other);
  FabricLane first(connection->forward(), {64 * 1024, 128 * 1024, {}, {}});
  ASSERT_TRUE(first.works());
  ProcessUsage local_before;
  ProcessUsage other_before;
  for (int i = 0; i < replacements; ++i) {
    SCOPED_TRACE(testing::Message() << "replacement " << i);
    if (i == replacements / 4) {
      local_before = local.usage();
      other_before = other->usage();
    }
    const std::vector<RailId> left_out = {{{}, RailIndex(static_cast<std::uint16_t>(i % kRails))}};
    auto next = std::make_unique<FabricConnection>(
        local, *other, FabricConnection::RailUse{left_out, left_out, true});
    ASSERT_TRUE(connection->close());
    connection = std::move(next);
    FabricLane lane(first, connection->forward());
    ASSERT_TRUE(lane.works());
  }
  compare(GetParam(), local_before, local.usage(), kRails);
  compare(GetParam(), other_before, other->usage(), kRails);
  EXPECT_EQ(local.stats().peers.size(), 1U);
}

// Engines that come and go leave nothing behind either.
TEST_P(Churn, EnginesThatComeAndGo) {
  ProcessUsage before;
  constexpr int kEngines = scaled(48);
  for (int i = 0; i < kEngines; ++i) {
    if (i == kEngines / 3) before = process_usage();
    LocalNode first(engine_options(GetParam()));
    LocalNode second(engine_options(GetParam()));
    FabricConnection connection(first, second);
    FabricLane lane(connection.forward(), {64 * 1024, 128 * 1024, {}, {}});
    ASSERT_TRUE(lane.works());
    // Of shm in one process an engine leaves memory behind where the peer did not say goodbye.
    ASSERT_TRUE(connection.close());
  }
  compare(GetParam(), before, process_usage());
}

KVRAIL_CONFORMANCE(Churn);

class ManyLinks : public FabricTest {};

// What a link costs, with all of them open.
TEST_P(ManyLinks, ManyAtOnce) {
  if (GetParam().has_large_endpoints()) GTEST_SKIP() << "a thousand would need tens of gigabytes";
  // Over shm each end of a link takes 4 MiB of the host's memory.
  const int links = GetParam().provider == "shm" ? scaled(300) : scaled(1000);
  constexpr int kSample = 50;
  const std::uint64_t limit = raise_descriptor_limit();
  LocalNode first(engine_options(GetParam()));
  LocalNode second(engine_options(GetParam()));
  const ProcessUsage before = process_usage();
  std::vector<std::unique_ptr<FabricConnection>> connections;
  std::vector<FabricLane> lanes;
  const auto memory_size = FabricLane::Size{4096, 8192, {}, {}};
  for (int i = 0; i < links; ++i) {
    if (i == kSample) {
      const std::uint64_t used = process_usage().descriptors - before.descriptors;
      if (used * links / kSample + 500 > limit) {
        GTEST_SKIP() << links << " links in one process need about " << used * links / kSample
                     << " descriptors, and the limit is " << limit << " (ulimit -n)";
      }
    }
    connections.push_back(std::make_unique<FabricConnection>(first, second));
    lanes.emplace_back(connections.back()->forward(), memory_size, i);
    ASSERT_TRUE(lanes.back().works()) << "link " << i;
  }
  // All of them, again, at once.
  std::vector<WriteOutcome> sent;
  std::vector<CounterOutcome> reached;
  for (FabricLane& lane : lanes) {
    const CounterId counter = lane.take_counter();
    const std::vector<WriteRun> runs = {{0, 0, 4096, 1}};
    lane.note(runs);
    reached.push_back(lane.expect(counter, 1));
    sent.push_back(lane.submit(counter, runs));
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    ASSERT_TRUE(written(sent[i])) << "link " << i;
    ASSERT_TRUE(counted(reached[i], 1)) << "link " << i;
    ASSERT_TRUE(lanes[i].target_is_right()) << "link " << i;
  }
  const ProcessUsage after = process_usage();
  // A test's own: two memory files per lane.
  const auto descriptors = (after.descriptors - before.descriptors) / links - 2;
  const auto bytes = (after.resident_bytes - before.resident_bytes) / links;
  RecordProperty("descriptors_per_link_pair", static_cast<int>(descriptors));
  RecordProperty("resident_bytes_per_link_pair", static_cast<int>(bytes));
  std::cout << links << " pairs of links: each holds " << descriptors << " descriptors and "
            << bytes / 1024 << " KiB of resident memory, both ends and the test's own together\n";
  for (const auto& connection : connections) ASSERT_TRUE(connection->close());
  EXPECT_EQ(after.threads, before.threads);
}

KVRAIL_CONFORMANCE_ONE_PROCESS(ManyLinks);

}  // namespace
}  // namespace kvrail

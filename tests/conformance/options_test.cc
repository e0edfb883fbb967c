#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

class Options : public FabricTest {
 protected:
  void transfer_with(const TransferEngineOptions& options) {
    FabricPair pair(GetParam(), options, options);
    std::mt19937_64 random(19);
    std::vector<FabricLane> lanes;
    lanes.push_back(pair.lane_to_other({2 * kMiB, 4 * kMiB, {}, {}}, 1));
    lanes.push_back(pair.lane_to_local({2 * kMiB, 4 * kMiB, {}, {}}, 2));
    for (FabricLane& lane : lanes) {
      ASSERT_TRUE(lane.transfer(
          random_runs(random, 2 * kMiB, 4 * kMiB, RunShape::kMixed, {.max_units = 3})));
      ASSERT_TRUE(lane.transfer(strided_runs(3, kMiB, kMiB + 1, 2 * kMiB)));
      ASSERT_TRUE(lane.target_is_right());
    }
    EXPECT_TRUE(pair.no_errors());
  }
};

TEST_P(Options, ProvedDelivery) {
  auto options = engine_options(GetParam());
  options.delivery = Delivery::kProved;
  transfer_with(options);
}

// With proved delivery a submission's success says that the bytes are there.
TEST_P(Options, ProvedDeliveryMeansArrived) {
  auto options = engine_options(GetParam());
  options.delivery = Delivery::kProved;
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other({kMiB, 2 * kMiB, {}, {}});
  for (std::uint64_t round = 0; round < 20; ++round) {
    lane.source().fill(round);
    const auto runs = strided_runs(64, 16 * 1024, 32 * 1024, kMiB);
    lane.note(runs);
    const CounterId counter = lane.take_counter();
    const auto reached = lane.expect(counter, units_of(runs));
    ASSERT_TRUE(written(lane.submit(counter, runs)));
    ASSERT_TRUE(lane.target_is_right()) << "round " << round;
    ASSERT_TRUE(counted(reached, units_of(runs)));
  }
}

TEST_P(Options, ShortestQueue) {
  auto options = engine_options(GetParam());
  options.queue_depth = 1;
  transfer_with(options);
}

TEST_P(Options, SmallWrites) {
  auto options = engine_options(GetParam());
  options.max_write_bytes = 64 * 1024;
  FabricPair pair(GetParam(), options, options);
  auto lane = pair.lane_to_other({kMiB, kMiB, {}, {}});
  // A run may only be split where it has units for the pieces.
  ASSERT_TRUE(lane.transfer({{0, 0, kMiB, 16}}));
  EXPECT_TRUE(lane.target_is_right());
  const LinkStats stats = peer_stats(pair.local(), pair.connection().initiator().peer);
  EXPECT_GE(stats.writes_posted, 16U);
  ASSERT_TRUE(lane.transfer(strided_runs(256, 4096, 4096, kMiB)));
  EXPECT_TRUE(lane.target_is_right());
}

TEST_P(Options, LogLinesSayWhatWasOpened) {
  auto options = engine_options(GetParam());
  std::mutex mutex;
  std::string log;
  options.log = [&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    log += line;
    log += '\n';
  };
  const TransferEngine engine(options);
  const std::lock_guard lock(mutex);
  EXPECT_NE(log.find(GetParam().provider), std::string::npos) << log;
}

KVRAIL_CONFORMANCE(Options);

// What a wrong setting is answered with: an error that names the setting and its value.
void expect_refused(const TransferEngineOptions& options, std::vector<std::string> words) {
  try {
    const TransferEngine engine(options);
    ADD_FAILURE() << "opened: " << engine.describe();
  } catch (const Error& error) {
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "no word of " << word << " in: " << error.what();
    }
  }
}

class WrongOptions : public FabricTest {};

TEST_P(WrongOptions, AreNamed) {
  const auto good = engine_options(GetParam());
  auto options = good;
  // Shared memory has no NICs to choose from.
  if (GetParam().provider != "shm") {
    options.device_groups[0].nics = {"no-such-nic0"};
    expect_refused(options, {"no-such-nic0", "nics"});
  }
  options = good;
  options.device_groups.clear();
  expect_refused(options, {"device_groups"});
  options = good;
  options.device_groups[0].rails_per_nic = 0;
  expect_refused(options, {"rails_per_nic"});
  options.device_groups[0].rails_per_nic = 17;
  expect_refused(options, {"rails_per_nic", "16"});
  options = good;
  options.device_groups[0].cores = {100'000};
  expect_refused(options, {"cores"});
  options = good;
  options.queue_depth = 4097;
  expect_refused(options, {"queue_depth", "4097"});
  options = good;
  options.receive_credit = 1;
  expect_refused(options, {"receive_credit"});
  options.receive_credit = 65'537;
  expect_refused(options, {"receive_credit"});
  options = good;
  options.submission_queue_length = 0;
  expect_refused(options, {"submission_queue_length"});
}

TEST_P(WrongOptions, AddressesAreNamed) {
  if (!GetParam().over_tcp()) GTEST_SKIP() << "it binds no address";
  auto options = engine_options(GetParam());
  options.bind_address = "not-an-address";
  expect_refused(options, {"bind_address", "not-an-address"});
  // An address for documentation, which no host has.
  options.bind_address = "203.0.113.77";
  expect_refused(options, {"bind_address", "203.0.113.77"});
}

KVRAIL_CONFORMANCE_ONE_PROCESS(WrongOptions);

TEST(ProviderChoice, UnknownProvidersAreNamed) {
  TransferEngineOptions options;
  options.provider = "no-such-provider";
  expect_refused(options, {"provider", "no-such-provider"});
  options.provider = "";
  expect_refused(options, {"provider"});
}

// A provider that libfabric lists but that has no device on this machine is never replaced.
TEST(ProviderChoice, ProvidersWithoutADeviceAreNamed) {
  for (const char* name : {"efa", "psm2", "verbs;ofi_rxm"}) {
    TransferEngineOptions options;
    options.provider = name;
    try {
      const TransferEngine engine(options);
      // It is there after all; then it must be itself.
      EXPECT_NE(engine.describe().find(name), std::string::npos);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

// It cannot be closed safely there.
TEST(ProviderChoice, TcpOverRxmIsForLibfabric1) {
  TransferEngineOptions options;
  options.provider = "tcp;ofi_rxm";
  if (std::string(TransferEngine({}).describe()).find("libfabric 2.") == std::string::npos) {
    const TransferEngine engine(options);
    EXPECT_NE(engine.describe().find("tcp;ofi_rxm"), std::string::npos);
  } else {
    expect_refused(options, {"tcp;ofi_rxm", "libfabric 2.", "'tcp'"});
  }
}

// The choice between two processes of one host, as each describes it.
TEST(ProviderChoice, AutoTakesSharedMemoryOnOneHost) {
  TransferEngineOptions options;
  FabricPair pair({"auto", Placement::kTwoProcesses}, options, options);
  auto lane = pair.lane_to_other({65536, 131072, {}, {}});
  ASSERT_TRUE(lane.works());
  for (const auto& side : {pair.connection().initiator(), pair.connection().acceptor()}) {
    EXPECT_NE(side.node->describe_peer(side.peer).find("shm"), std::string::npos)
        << side.node->describe_peer(side.peer);
    EXPECT_EQ(side.node->stats().peers.at(0).provider, "shm");
  }
}

TEST(ProviderChoice, AutoTakesWhatBothHave) {
  TransferEngineOptions any;
  TransferEngineOptions tcp;
  tcp.provider = "tcp";
  FabricPair pair({"auto", Placement::kTwoProcesses}, any, tcp);
  auto there = pair.lane_to_other({65536, 131072, {}, {}});
  auto back = pair.lane_to_local({65536, 131072, {}, {}});
  ASSERT_TRUE(there.works());
  ASSERT_TRUE(back.works());
  for (const auto& side : {pair.connection().initiator(), pair.connection().acceptor()}) {
    EXPECT_EQ(side.node->stats().peers.at(0).provider, "tcp");
  }
}

TEST(ProviderChoice, NothingInCommonIsAnError) {
  TransferEngineOptions tcp;
  tcp.provider = "tcp";
  TransferEngineOptions shm;
  shm.provider = "shm";
  LocalNode first(tcp);
  LocalNode second(shm);
  try {
    FabricConnection connection(first, second);
    ADD_FAILURE() << "they were introduced";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("tcp"), std::string::npos) << text;
    EXPECT_NE(text.find("shm"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace kvrail

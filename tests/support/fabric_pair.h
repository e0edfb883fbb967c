#pragma once

#include <memory>

#include <gtest/gtest.h>

#include "support/fabric_config.h"
#include "support/fabric_lane.h"
#include "support/fabric_local_node.h"
#include "support/fabric_remote_node.h"

namespace kvrail {

// Two nodes, introduced: one here and one where the configuration says.
class FabricPair {
 public:
  FabricPair(const FabricConfig& config, TransferEngineOptions local, TransferEngineOptions other,
             const FabricConnection::RailUse& rails = {});
  explicit FabricPair(const FabricConfig& config)
      : FabricPair(config, engine_options(config), engine_options(config)) {}

  LocalNode& local() { return local_; }
  FabricNode& other() { return *other_; }
  // Two processes only.
  RemoteNode& remote() { return dynamic_cast<RemoteNode&>(*other_); }
  FabricConnection& connection() { return *connection_; }

  FabricLane lane_to_other(FabricLane::Size size, std::uint64_t seed = 1) {
    return FabricLane(connection_->forward(), size, seed);
  }
  FabricLane lane_to_local(FabricLane::Size size, std::uint64_t seed = 1) {
    return FabricLane(connection_->backward(), size, seed);
  }
  // Neither side was told of an error.
  testing::AssertionResult no_errors() const;

 private:
  LocalNode local_;
  std::unique_ptr<FabricNode> other_;
  std::unique_ptr<FabricConnection> connection_;
};

// A third node in this process, introduced to `node`, to see that others work on.
class Bystander {
 public:
  Bystander(const FabricConfig& config, FabricNode& node)
      : node_(engine_options(config)),
        connection_(node, node_),
        lane_(connection_.forward(), {64 * 1024, 128 * 1024, {}, {}}),
        back_(connection_.backward(), {64 * 1024, 128 * 1024, {}, {}}) {}

  testing::AssertionResult works() {
    if (auto result = lane_.works(); !result) return result;
    return back_.works();
  }

 private:
  LocalNode node_;
  FabricConnection connection_;
  FabricLane lane_;
  FabricLane back_;
};

// Engines of `rails` endpoints on one NIC, in `groups` device groups.
TransferEngineOptions with_rails(TransferEngineOptions options, std::uint16_t rails,
                                 std::size_t groups = 1);

// The base of the suites: each runs once per configuration.
class FabricTest : public testing::TestWithParam<FabricConfig> {};

// Whether a process survives that its peer goes away in mid-write. Not on the layered tcp provider
// of libfabric 1.x, which then follows a null pointer in whoever reads the completion queue.
bool survives_lost_peers(const FabricConfig& config);

// The name of an instantiated test.
inline std::string name_of(const testing::TestParamInfo<FabricConfig>& info) {
  return config_name(info.param);
}

}  // namespace kvrail

// Instantiates a suite for all configurations, or only for those with two processes or with one.
#define KVRAIL_CONFORMANCE(suite) \
  INSTANTIATE_TEST_SUITE_P(Fabric, suite, testing::ValuesIn(all_configs()), name_of)
#define KVRAIL_CONFORMANCE_TWO_PROCESSES(suite) \
  INSTANTIATE_TEST_SUITE_P(Fabric, suite, testing::ValuesIn(two_process_configs()), name_of)
#define KVRAIL_CONFORMANCE_ONE_PROCESS(suite) \
  INSTANTIATE_TEST_SUITE_P(Fabric, suite, testing::ValuesIn(one_process_configs()), name_of)

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"
#include "support/scripted_fabric.h"

namespace kvrail {

// The configurations of the scripted provider, if it is under test.
inline std::vector<FabricConfig> scripted_configs(std::vector<FabricConfig> configs) {
  std::erase_if(configs, [](const FabricConfig& config) { return config.provider != "scripted"; });
  return configs;
}

// The base of suites about what the library makes of a network that misbehaves. Without a script of
// a test's own everything arrives at once and in order.
class ScriptedTest : public FabricTest {
 protected:
  using Count = scripted::Count;

  static constexpr std::uint64_t kSize = 1000;
  static constexpr std::uint64_t kStride = 1500;
  // So many runs, each of which is a write of one unit.
  static std::vector<WriteRun> writes(std::size_t count) {
    return strided_runs(count, kSize, kStride, count * kSize);
  }
  static FabricLane::Size size_for(std::size_t count) {
    return {count * kSize, count * kStride, {}, {}};
  }
  // Of a list of writes() of which the one with this index did not land.
  static std::vector<WriteRun> without(std::vector<WriteRun> runs, std::size_t index) {
    runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(index));
    return runs;
  }
  static bool has_error(const FabricConnection::Side& side, ErrorCode code) {
    for (const Status& error : side.errors->entries()) {
      if (error.code() == code) return true;
    }
    return false;
  }

  ScriptInForce script_{""};
};

}  // namespace kvrail

// Instantiates a suite for the scripted provider, for all placements or for one process.
#define KVRAIL_SCRIPTED(suite)                                                                  \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(suite);                                         \
  INSTANTIATE_TEST_SUITE_P(Scripted, suite, testing::ValuesIn(scripted_configs(all_configs())), \
                           name_of)
#define KVRAIL_SCRIPTED_ONE_PROCESS(suite)              \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(suite); \
  INSTANTIATE_TEST_SUITE_P(Scripted, suite,             \
                           testing::ValuesIn(scripted_configs(one_process_configs())), name_of)

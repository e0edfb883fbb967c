#include <signal.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

struct Handler {
  void* function = nullptr;
  int flags = 0;

  bool operator==(const Handler&) const = default;
};

std::array<Handler, 65> signal_handlers() {
  std::array<Handler, 65> handlers;
  for (int signal = 1; signal < 65; ++signal) {
    struct sigaction action {};
    // The two that the C library keeps for itself are refused.
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    handlers[static_cast<std::size_t>(signal)] = {
        reinterpret_cast<void*>(action.sa_handler),  // the union's other member has its place
        action.sa_flags};
  }
  return handlers;
}

class HostProcess : public FabricTest {
 protected:
  // The share of a core that a process used over `time`, as its kernel says.
  static double load_over(FabricNode& node, std::chrono::milliseconds time) {
    const auto started = std::chrono::steady_clock::now();
    const auto before = node.usage().cpu_time;
    std::this_thread::sleep_for(time);
    const auto used = node.usage().cpu_time - before;
    return std::chrono::duration<double>(used) /
           std::chrono::duration<double>(std::chrono::steady_clock::now() - started);
  }
};

TEST_P(HostProcess, SignalHandlersStayAsTheyWere) {
  const auto before = signal_handlers();
  {
    FabricPair pair(GetParam());
    auto lane = pair.lane_to_other({4096, 8192, {}, {}});
    ASSERT_TRUE(lane.works());
    const auto during = signal_handlers();
    for (std::size_t signal = 1; signal < before.size(); ++signal) {
      EXPECT_EQ(before[signal], during[signal]) << "signal " << signal;
    }
  }
  EXPECT_EQ(before, signal_handlers());
}

// An engine with peers and nothing to do leaves the processor alone.
TEST_P(HostProcess, IdleEnginesUseNoCore) {
  FabricPair pair(GetParam());
  Bystander bystander(GetParam(), pair.local());
  auto lane = pair.lane_to_other({65536, 131072, {}, {}});
  ASSERT_TRUE(lane.works());
  // Until what was woken by the last write has gone to sleep.
  double load = 1;
  EXPECT_TRUE(poll_until(
      [&] { return (load = load_over(pair.local(), std::chrono::milliseconds(500))) < 0.01; },
      Deadline(std::chrono::seconds(5))))
      << load;
  // Two or three engines are in this process.
  load = load_over(pair.local(), std::chrono::seconds(2));
  EXPECT_LT(load, 0.01);
  RecordProperty("idle_load_percent", std::to_string(load * 100));
  ASSERT_TRUE(lane.works());
  ASSERT_TRUE(bystander.works());
}

// With a counter expected it dozes: it must notice an arrival, but not by spinning.
TEST_P(HostProcess, WaitingEnginesDoze) {
  FabricPair pair(GetParam());
  auto lane = pair.lane_to_other({65536, 131072, {}, {}});
  ASSERT_TRUE(lane.works());
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, 1);
  const double load = load_over(pair.other(), std::chrono::seconds(2));
  EXPECT_LT(load, 0.20);
  RecordProperty("waiting_load_percent", std::to_string(load * 100));
  const std::vector<WriteRun> runs = {{0, 100, 1000, 1}};
  lane.note(runs);
  ASSERT_TRUE(written(lane.submit(counter, runs)));
  ASSERT_TRUE(counted(reached, 1));
  EXPECT_TRUE(lane.target_is_right());
}

// An engine that never spins works as well.
TEST_P(HostProcess, DozingAtOnceWorks) {
  auto options = engine_options(GetParam());
  options.spin_us = 0;
  FabricPair pair(GetParam(), options, options);
  auto there = pair.lane_to_other({65536, 131072, {}, {}});
  auto back = pair.lane_to_local({65536, 131072, {}, {}});
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(there.works());
    ASSERT_TRUE(back.works());
  }
}

KVRAIL_CONFORMANCE(HostProcess);

}  // namespace
}  // namespace kvrail

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "kvrail/transfer_engine.h"
#include "support/process_deadline.h"

namespace kvrail {
namespace {

using namespace std::chrono_literals;

constexpr DeviceGroupId kGroup{0};

class TurnCallTest : public ::testing::Test {
 protected:
  static TransferEngineOptions options() {
    TransferEngineOptions options;
    options.provider = "tcp";
    options.bind_address = "127.0.0.1";
    return options;
  }
  std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  // Relaxed: nothing but the number itself is read.
  TurnCall counting() {
    return [this] {
      calls_.fetch_add(1, std::memory_order_relaxed);
      return go_on_.load(std::memory_order_relaxed);
    };
  }
  bool stands_still() {
    return poll_until([&] {
      const std::uint64_t before = calls();
      std::this_thread::sleep_for(20ms);
      return calls() == before;
    });
  }

  std::atomic<std::uint64_t> calls_{0};
  std::atomic<bool> go_on_{true};
  TransferEngine engine_{options()};
};

TEST_F(TurnCallTest, IsMadeAllTheTimeWhileItAsksForIt) {
  engine_.set_turn_call(kGroup, counting());
  EXPECT_TRUE(poll_until([&] { return calls() > 10'000; }));
  const std::uint64_t wakeups = engine_.stats().worker_wakeups;
  const std::uint64_t before = calls();
  EXPECT_TRUE(poll_until([&] { return calls() > before + 10'000; }));
  EXPECT_EQ(engine_.stats().worker_wakeups, wakeups);
}

TEST_F(TurnCallTest, LetsTheWorkerSleepUntilItIsWoken) {
  go_on_.store(false, std::memory_order_relaxed);
  engine_.set_turn_call(kGroup, counting());
  EXPECT_TRUE(poll_until([&] { return calls() > 0; }));
  EXPECT_TRUE(stands_still());
  const std::uint64_t before = calls();
  go_on_.store(true, std::memory_order_relaxed);
  engine_.wake_worker(kGroup);
  EXPECT_TRUE(poll_until([&] { return calls() > before + 1'000; }));
}

TEST_F(TurnCallTest, AnEmptyOneEndsIt) {
  engine_.set_turn_call(kGroup, counting());
  EXPECT_TRUE(poll_until([&] { return calls() > 0; }));
  engine_.set_turn_call(kGroup, {});
  EXPECT_TRUE(stands_still());
  engine_.wake_worker(kGroup);
  EXPECT_TRUE(stands_still());
}

TEST_F(TurnCallTest, ALaterOneTakesItsPlace) {
  std::atomic<std::uint64_t> others{0};
  engine_.set_turn_call(kGroup, counting());
  engine_.set_turn_call(kGroup, [&] {
    others.fetch_add(1, std::memory_order_relaxed);
    return false;
  });
  EXPECT_TRUE(poll_until([&] { return others.load(std::memory_order_relaxed) > 0; }));
  EXPECT_TRUE(stands_still());
  engine_.set_turn_call(kGroup, {});
  // The engine outlives `others`, and the worker runs commands in order.
  std::byte memory[8];
  engine_.register_memory(kGroup, memory, sizeof memory);
}

TEST_F(TurnCallTest, OfAGroupThatDoesNotExist) {
  EXPECT_THROW(engine_.set_turn_call(DeviceGroupId(1), {}), Error);
  EXPECT_THROW(engine_.wake_worker(DeviceGroupId(1)), Error);
}

}  // namespace
}  // namespace kvrail

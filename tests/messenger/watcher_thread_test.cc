#include <time.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>

#include "base/clock.h"
#include "messenger/layer_watcher.h"
#include "messenger/recording_listener.h"
#include "support/process_deadline.h"

namespace kvrail {
namespace {

constexpr std::int64_t kDeadlineNs = 20'000'000'000;

std::int64_t process_cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

std::shared_ptr<const SignalMap> layers(std::uint32_t count) {
  SignalMap map;
  for (std::uint32_t layer = 0; layer < count; ++layer) map.push_back({LayerIndex(layer)});
  return std::make_shared<const SignalMap>(std::move(map));
}

// Waits until the listener has been told `count` things.
bool told(const RecordingListener& listener, std::size_t count) {
  const std::int64_t deadline = now_ns() + kDeadlineNs;
  while (listener.size() < count) {
    if (now_ns() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

enum class Place { kThread, kLoop };

class WatcherThreadTest : public ::testing::TestWithParam<Place> {
 protected:
  ~WatcherThreadTest() override {
    watcher_.stop();
    ended_.store(true, std::memory_order_relaxed);
    wakes_.release();
    if (loop_.joinable()) loop_.join();
  }

  void start() {
    if (GetParam() == Place::kThread) return watcher_.start();
    watcher_.start_in_loop([this] { wakes_.release(); });
    loop_ = std::thread([this] {
      while (!ended_.load(std::memory_order_relaxed)) {
        if (watcher_.turn()) {
          std::this_thread::yield();
        } else {
          wakes_.acquire();
        }
      }
    });
  }

  Logger log_{"test", {}};
  LayerWatcher watcher_{{}, log_};
  std::shared_ptr<LayerCounter> counter_ = watcher_.make_counter();
  std::atomic<std::uint64_t> announced_{0};
  std::shared_ptr<RecordingListener> listener_ = std::make_shared<RecordingListener>();
  std::counting_semaphore<> wakes_{0};
  std::atomic<bool> ended_{false};
  std::thread loop_;
};

TEST_P(WatcherThreadTest, SeesEverySignalOfManySteps) {
  start();
  constexpr std::uint32_t kLayers = 8;
  constexpr std::uint32_t kSteps = 500;
  const auto map = layers(kLayers);
  for (std::uint32_t i = 0; i < kSteps; ++i) {
    counter_->start(watcher_.announce(*counter_, map, listener_));
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) counter_->signal();
  }
  ASSERT_TRUE(told(*listener_, kSteps * (kLayers + 1) - 1));
  const auto events = listener_->take();
  std::size_t next = 0;
  for (std::uint32_t step = 1; step <= kSteps; ++step) {
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      ASSERT_EQ(events.at(next++), fmt::format("{}:{}", step, layer));
    }
    if (step < kSteps) {
      ASSERT_EQ(events.at(next++), fmt::format("{} finished", step));
    }
  }
  EXPECT_EQ(watcher_.steps_failed(), 0u);
}

TEST_P(WatcherThreadTest, StepsMayBeInFlightWhileOthersAreAnnounced) {
  start();
  const auto map = layers(4);
  std::thread pass([&] {
    for (std::uint64_t step = 1; step <= 200; ++step) {
      // The pass runs as far ahead as the announcements allow.
      while (announced_.load(std::memory_order_acquire) < step) std::this_thread::yield();
      counter_->start(StepId(step));
      for (int layer = 0; layer < 4; ++layer) counter_->signal();
    }
  });
  for (std::uint64_t step = 1; step <= 200;) {
    try {
      watcher_.announce(*counter_, map, listener_);
      announced_.store(step++, std::memory_order_release);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kLimit);
      std::this_thread::yield();
    }
  }
  pass.join();
  ASSERT_TRUE(told(*listener_, 200 * 5 - 1));
  EXPECT_EQ(watcher_.steps_failed(), 0u);
}

TEST_P(WatcherThreadTest, UsesNoCpuWhileNoSignalIsDue) {
  start();
  const StepId step = watcher_.announce(*counter_, layers(2), listener_);
  counter_->start(step);
  counter_->signal();
  counter_->signal();
  ASSERT_TRUE(told(*listener_, 2));

  // Idle is the absence of something: it takes a span of time to see it.
  constexpr auto kSpan = std::chrono::milliseconds(200);
  const std::int64_t before = process_cpu_ns();
  std::this_thread::sleep_for(kSpan);
  EXPECT_LT(process_cpu_ns() - before, 20'000'000);

  // And it wakes again.
  const StepId next = watcher_.announce(*counter_, layers(1), listener_);
  counter_->start(next);
  counter_->signal();
  EXPECT_TRUE(told(*listener_, 4));
}

TEST_P(WatcherThreadTest, AFailedOrDiscardedStepKeepsNobodyAwake) {
  start();
  const StepId failed = watcher_.announce(*counter_, layers(2), listener_);
  const StepId discarded = watcher_.announce(*counter_, layers(2), listener_);
  counter_->start(failed);
  watcher_.fail(*counter_, failed, Status(ErrorCode::kStepFailed, "lost"));
  watcher_.discard(*counter_, discarded);
  ASSERT_TRUE(told(*listener_, 2));
  const std::int64_t before = process_cpu_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(process_cpu_ns() - before, 20'000'000);
}

TEST_P(WatcherThreadTest, StopsWhileAStepIsPending) {
  start();
  const StepId step = watcher_.announce(*counter_, layers(2), listener_);
  watcher_.stop();
  watcher_.stop();
  EXPECT_FALSE(watcher_.poll_once());
  // A signal that comes now is nobody's.
  counter_->start(step);
  counter_->signal();
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(20), [&] { return listener_->size() == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Places, WatcherThreadTest, ::testing::Values(Place::kThread, Place::kLoop),
                         [](const auto& info) {
                           return info.param == Place::kThread ? "thread" : "loop";
                         });

}  // namespace
}  // namespace kvrail

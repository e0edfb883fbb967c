#include "messenger/layer_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "messenger/recording_listener.h"

namespace kvrail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A watcher without its thread: every look is a call.
class LayerWatcherTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const SignalMap> layers(std::uint32_t count) {
    SignalMap map;
    for (std::uint32_t layer = 0; layer < count; ++layer) map.push_back({LayerIndex(layer)});
    return std::make_shared<const SignalMap>(std::move(map));
  }
  StepId announce(std::uint32_t layer_count = 3) {
    return watcher_.announce(*counter_, layers(layer_count), listener_);
  }
  void run(StepId step, int signals) {
    counter_->start(step);
    for (int i = 0; i < signals; ++i) counter_->signal();
  }
  std::vector<std::string> look() {
    watcher_.poll_once();
    return listener_->take();
  }

  std::vector<std::string> lines_;
  Logger log_{"test", [this](LogLevel, std::string_view line) { lines_.emplace_back(line); }};
  LayerWatcher watcher_{{}, log_};
  std::shared_ptr<LayerCounter> counter_ = watcher_.make_counter();
  std::shared_ptr<RecordingListener> listener_ = std::make_shared<RecordingListener>();
};

TEST_F(LayerWatcherTest, NumbersStepsFromOne) {
  EXPECT_EQ(announce(), StepId(1));
  EXPECT_EQ(announce(), StepId(2));
}

TEST_F(LayerWatcherTest, TellsLayersAsTheyAreSignalled) {
  const StepId step = announce();
  EXPECT_FALSE(watcher_.poll_once());
  counter_->start(step);
  EXPECT_THAT(look(), IsEmpty());
  counter_->signal();
  EXPECT_TRUE(watcher_.poll_once());
  EXPECT_THAT(listener_->take(), ElementsAre("1:0"));
  EXPECT_FALSE(watcher_.poll_once());
  counter_->signal();
  EXPECT_THAT(look(), ElementsAre("1:1"));
  counter_->signal();
  EXPECT_THAT(look(), ElementsAre("1:2"));
}

TEST_F(LayerWatcherTest, HandsOnCoalescedSignalsInOrder) {
  run(announce(), 3);
  EXPECT_THAT(look(), ElementsAre("1:0", "1:1", "1:2"));
}

TEST_F(LayerWatcherTest, FollowsTheSignalMap) {
  const SignalMap map = {{LayerIndex(1), LayerIndex(0)}, {}, {LayerIndex(2)}};
  const StepId step =
      watcher_.announce(*counter_, std::make_shared<const SignalMap>(map), listener_);
  run(step, 2);
  EXPECT_THAT(look(), ElementsAre("1:1", "1:0"));
  counter_->signal();
  EXPECT_THAT(look(), ElementsAre("1:2"));
}

TEST_F(LayerWatcherTest, FinishesAStepOnceTheNextBegins) {
  const StepId first = announce();
  const StepId second = announce();
  run(first, 3);
  EXPECT_THAT(look(), ElementsAre("1:0", "1:1", "1:2"));
  run(second, 1);
  EXPECT_THAT(look(), ElementsAre("1 finished", "2:0"));
}

TEST_F(LayerWatcherTest, SettlesALateLookFromHistory) {
  const StepId first = announce();
  const StepId second = announce();
  const StepId third = announce();
  counter_->start(first);
  counter_->signal();
  EXPECT_THAT(look(), ElementsAre("1:0"));
  counter_->signal();
  counter_->signal();
  run(second, 3);
  run(third, 2);
  EXPECT_THAT(look(), ElementsAre("1:1", "1:2", "1 finished", "2:0", "2:1", "2:2", "2 finished",
                                  "3:0", "3:1"));
}

TEST_F(LayerWatcherTest, AMissingSignalFailsThatStepAlone) {
  const StepId first = announce();
  const StepId second = announce();
  const StepId third = announce();
  run(first, 3);
  run(second, 2);
  run(third, 3);
  EXPECT_THAT(look(),
              ElementsAre("1:0", "1:1", "1:2", "1 finished", "2 failed", "3:0", "3:1", "3:2"));
  EXPECT_EQ(listener_->reasons().at(0).code(), ErrorCode::kStepFailed);
  EXPECT_THAT(listener_->reasons().at(0).text(), HasSubstr("2 layer signals instead of 3"));
  EXPECT_EQ(watcher_.steps_failed(), 1u);
}

TEST_F(LayerWatcherTest, AnExtraSignalFailsTheCurrentStepAndHandsOnNoMore) {
  run(announce(), 4);
  EXPECT_THAT(look(), ElementsAre("1 failed"));
  counter_->signal();
  EXPECT_THAT(look(), IsEmpty());
  run(announce(), 3);
  EXPECT_THAT(look(), ElementsAre("2:0", "2:1", "2:2"));
  EXPECT_EQ(watcher_.stray_signals(), 0u);
}

TEST_F(LayerWatcherTest, AnExtraSignalAfterTheLastLayerFailsTheStep) {
  run(announce(), 3);
  EXPECT_THAT(look(), ElementsAre("1:0", "1:1", "1:2"));
  counter_->signal();
  EXPECT_THAT(look(), ElementsAre("1 failed"));
}

TEST_F(LayerWatcherTest, AnExtraSignalThatIsSeenLateFailsTheStep) {
  const StepId first = announce();
  run(first, 3);
  EXPECT_THAT(look(), ElementsAre("1:0", "1:1", "1:2"));
  counter_->signal();
  run(announce(), 1);
  EXPECT_THAT(look(), ElementsAre("1 failed", "2:0"));
}

TEST_F(LayerWatcherTest, ADiscardedStepIsSkipped) {
  const StepId first = announce();
  const StepId second = announce();
  const StepId third = announce();
  run(first, 3);
  watcher_.discard(*counter_, second);
  EXPECT_THAT(listener_->take(), ElementsAre("2 discarded"));
  run(third, 3);
  EXPECT_THAT(look(), ElementsAre("1:0", "1:1", "1:2", "1 finished", "3:0", "3:1", "3:2"));
}

TEST_F(LayerWatcherTest, AStepThatIsLeftOutWithoutDiscardFails) {
  announce();
  run(announce(), 3);
  EXPECT_THAT(look(), ElementsAre("1 failed", "2:0", "2:1", "2:2"));
  EXPECT_THAT(listener_->reasons().at(0).text(), HasSubstr("never began"));
}

TEST_F(LayerWatcherTest, DiscardingAStepThatIsSignalledFailsIt) {
  const StepId step = announce();
  run(step, 1);
  watcher_.discard(*counter_, step);
  EXPECT_THAT(listener_->take(), ElementsAre("1 failed"));
  counter_->signal();
  EXPECT_THAT(look(), IsEmpty());
}

TEST_F(LayerWatcherTest, AFailedStepIgnoresItsSignals) {
  const StepId step = announce();
  run(step, 1);
  EXPECT_THAT(look(), ElementsAre("1:0"));
  watcher_.fail(*counter_, step, Status(ErrorCode::kStepFailed, "out of memory"));
  EXPECT_THAT(listener_->take(), ElementsAre("1 failed"));
  EXPECT_EQ(listener_->reasons().at(0).text(), "out of memory");
  counter_->signal();
  counter_->signal();
  EXPECT_THAT(look(), IsEmpty());
  watcher_.fail(*counter_, step, Status(ErrorCode::kStepFailed, "again"));
  EXPECT_THAT(listener_->take(), IsEmpty());
  run(announce(), 3);
  EXPECT_THAT(look(), ElementsAre("2:0", "2:1", "2:2"));
  EXPECT_EQ(watcher_.stray_signals(), 0u);
}

TEST_F(LayerWatcherTest, StraySignalsAreCountedAndLoggedOncePerKind) {
  counter_->signal();
  counter_->signal();
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_EQ(watcher_.stray_signals(), 2u);
  counter_->signal();
  look();
  EXPECT_EQ(watcher_.stray_signals(), 3u);
  EXPECT_EQ(lines_.size(), 1u);

  const StepId step = announce();
  watcher_.discard(*counter_, step);
  listener_->take();
  run(step, 2);
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_EQ(watcher_.stray_signals(), 5u);
  EXPECT_EQ(lines_.size(), 2u);
  counter_->signal();
  look();
  EXPECT_EQ(watcher_.stray_signals(), 6u);
  EXPECT_EQ(lines_.size(), 2u);

  run(announce(), 3);
  EXPECT_THAT(look(), ElementsAre("2:0", "2:1", "2:2"));
}

TEST_F(LayerWatcherTest, CountersDoNotMix) {
  const auto other = watcher_.make_counter();
  const auto other_listener = std::make_shared<RecordingListener>();
  const StepId here = announce();
  const StepId there = watcher_.announce(*other, layers(2), other_listener);
  EXPECT_EQ(here, there);
  run(here, 1);
  other->start(there);
  other->signal();
  other->signal();
  watcher_.poll_once();
  EXPECT_THAT(listener_->take(), ElementsAre("1:0"));
  EXPECT_THAT(other_listener->take(), ElementsAre("1:0", "1:1"));
}

TEST_F(LayerWatcherTest, AnnouncingFarAheadLooksFirstAndIsRefusedThen) {
  std::vector<StepId> steps;
  for (std::uint32_t i = 0; i <= LayerCounter::kHistory; ++i) steps.push_back(announce());
  try {
    announce();
    FAIL() << "one more step than the history holds";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kLimit);
  }
  // Once the pass has got on, announcing settles what nobody looked at.
  run(steps[0], 3);
  run(steps[1], 3);
  EXPECT_EQ(announce(), StepId(steps.back().value() + 1));
  EXPECT_THAT(listener_->take(),
              ElementsAre("1:0", "1:1", "1:2", "1 finished", "2:0", "2:1", "2:2"));
  // The whole history runs unseen, and nothing of it is lost.
  for (std::size_t i = 2; i < steps.size(); ++i) run(steps[i], 3);
  run(StepId(steps.back().value() + 1), 3);
  EXPECT_EQ(look().size(), 1 + (steps.size() - 2) * 4 + 3);
  EXPECT_EQ(watcher_.steps_failed(), 0u);
}

TEST_F(LayerWatcherTest, RefusesCountersOfOthersAndMapsWithoutRoomForAnExtraSignal) {
  const LayerCounter foreign;
  try {
    watcher_.announce(foreign, layers(1), listener_);
    FAIL() << "a foreign counter";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
  EXPECT_NO_THROW(announce(LayerCounter::kMaxSignals - 1));
  EXPECT_THROW(announce(LayerCounter::kMaxSignals), Error);
}

}  // namespace
}  // namespace kvrail

#include "kvrail/layer_counter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace kvrail {
namespace {

TEST(LayerCounter, StartsAtNoStep) {
  const LayerCounter counter;
  EXPECT_EQ(counter.read(), (LayerCount{StepId(0), 0}));
}

TEST(LayerCounter, CountsSignalsOfTheStepThatRuns) {
  LayerCounter counter;
  counter.start(StepId(1));
  EXPECT_EQ(counter.read(), (LayerCount{StepId(1), 0}));
  counter.signal();
  counter.signal();
  EXPECT_EQ(counter.read(), (LayerCount{StepId(1), 2}));
  counter.start(StepId(2));
  EXPECT_EQ(counter.read(), (LayerCount{StepId(2), 0}));
}

TEST(LayerCounter, KeepsTheFinalCountOfEarlierSteps) {
  LayerCounter counter;
  counter.start(StepId(1));
  counter.signal();
  counter.start(StepId(3));
  for (int i = 0; i < 3; ++i) counter.signal();
  counter.start(StepId(4));
  EXPECT_EQ(counter.history(StepId(1)), (LayerCount{StepId(1), 1}));
  EXPECT_EQ(counter.history(StepId(3)), (LayerCount{StepId(3), 3}));
  EXPECT_NE(counter.history(StepId(2)).step, StepId(2));
}

TEST(LayerCounter, ForgetsStepsBeyondTheHistory) {
  LayerCounter counter;
  for (std::uint64_t step = 1; step <= LayerCounter::kHistory + 1; ++step) {
    counter.start(StepId(step));
    counter.signal();
  }
  EXPECT_EQ(counter.history(StepId(1)), (LayerCount{StepId(1), 1}));
  counter.start(StepId(LayerCounter::kHistory + 2));
  EXPECT_EQ(counter.history(StepId(1)).step, StepId(LayerCounter::kHistory + 1));
}

TEST(LayerCounter, ExcessSignalsDoNotCarryIntoTheStep) {
  LayerCounter counter;
  counter.start(StepId(7));
  for (std::uint32_t i = 0; i < LayerCounter::kMaxSignals + 3; ++i) counter.signal();
  EXPECT_EQ(counter.read(), (LayerCount{StepId(7), LayerCounter::kMaxSignals}));
  counter.start(StepId(8));
  EXPECT_EQ(counter.read(), (LayerCount{StepId(8), 0}));
}

TEST(LayerCounter, IgnoresAStepThatIsNotLater) {
  LayerCounter counter;
  counter.start(StepId(5));
  counter.signal();
  counter.start(StepId(5));
  counter.start(StepId(4));
  EXPECT_EQ(counter.read(), (LayerCount{StepId(5), 1}));
}

TEST(LayerCounter, HoldsLargeSteps) {
  LayerCounter counter;
  const StepId last((std::uint64_t{1} << 48) - 1);
  counter.start(last);
  counter.signal();
  EXPECT_EQ(counter.read(), (LayerCount{last, 1}));
}

TEST(LayerCounter, ASignalPublishesWhatWasWrittenBeforeIt) {
  LayerCounter counter;
  constexpr std::uint32_t kLayers = 1000;
  std::vector<std::uint32_t> data(kLayers, 0);
  counter.start(StepId(1));
  std::thread pass([&] {
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      data[layer] = layer + 1;
      counter.signal();
    }
  });
  std::uint32_t seen = 0;
  while (seen < kLayers) {
    const std::uint32_t signals = counter.read().signals;
    for (; seen < signals; ++seen) ASSERT_EQ(data[seen], seen + 1);
    std::this_thread::yield();
  }
  pass.join();
}

}  // namespace
}  // namespace kvrail

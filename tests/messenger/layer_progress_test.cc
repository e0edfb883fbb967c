#include "messenger/layer_progress.h"

#include <gtest/gtest.h>

#include <random>

namespace kvrail {
namespace {

constexpr LayerIndex kA(0);
constexpr LayerIndex kB(1);
const std::vector<LayerIndex> kBoth = {kA, kB};

void expect_part(LayerProgress& progress, LayerIndex layer, TokenRange tokens) {
  const auto part = progress.take();
  ASSERT_TRUE(part);
  EXPECT_EQ(part->layer, layer);
  EXPECT_EQ(part->tokens, tokens);
}

TEST(LayerProgress, NothingIsDueBeforeTheRequestIsKnown) {
  LayerProgress progress(2);
  progress.begin(0);
  EXPECT_EQ(progress.announce({0, 5}, kBoth), "");
  EXPECT_TRUE(progress.compute(kA, {0, 5}, StepId(1), 7));
  EXPECT_FALSE(progress.take());
  EXPECT_FALSE(progress.complete());
  progress.open({2, 8});
  const auto part = progress.take();
  ASSERT_TRUE(part);
  EXPECT_EQ(part->layer, kA);
  EXPECT_EQ(part->tokens, (TokenRange{2, 5}));
  EXPECT_EQ(part->step, StepId(1));
  EXPECT_EQ(part->seen_ns, 7);
  EXPECT_FALSE(progress.take());
}

TEST(LayerProgress, APrefixIsDueForEveryLayer) {
  LayerProgress progress(2);
  progress.open({0, 8});
  progress.begin(6);
  expect_part(progress, kA, {0, 6});
  expect_part(progress, kB, {0, 6});
  EXPECT_FALSE(progress.take());
  EXPECT_EQ(progress.announce({6, 8}, kBoth), "");
  EXPECT_TRUE(progress.compute(kB, {6, 8}, StepId(1), 0));
  EXPECT_TRUE(progress.compute(kA, {6, 8}, StepId(1), 0));
  expect_part(progress, kB, {6, 8});
  EXPECT_FALSE(progress.complete());
  expect_part(progress, kA, {6, 8});
  EXPECT_TRUE(progress.complete());
}

TEST(LayerProgress, WhatWasNotTakenYetIsTakenTogether) {
  LayerProgress progress(1);
  progress.begin(0);
  progress.open({0, 9});
  EXPECT_TRUE(progress.compute(kA, {0, 4}, StepId(1), 0));
  EXPECT_TRUE(progress.compute(kA, {4, 10}, StepId(2), 0));
  expect_part(progress, kA, {0, 9});
  EXPECT_TRUE(progress.complete());
}

TEST(LayerProgress, NothingToSendIsComplete) {
  LayerProgress progress(2);
  progress.open({5, 5});
  EXPECT_TRUE(progress.complete());
  progress.begin(7);
  EXPECT_FALSE(progress.take());
}

TEST(LayerProgress, ChunksFollowEachOtherPerLayer) {
  LayerProgress progress(2);
  progress.begin(3);
  EXPECT_NE(progress.announce({0, 5}, kBoth), "");
  EXPECT_NE(progress.announce({4, 5}, kBoth), "");
  EXPECT_NE(progress.announce({3, 3}, kBoth), "");
  EXPECT_EQ(progress.announce({3, 5}, std::vector{kA}), "");
  EXPECT_NE(progress.announce({5, 6}, kBoth), "");
  EXPECT_EQ(progress.announce({3, 6}, std::vector{kB}), "");
  EXPECT_EQ(progress.announce({5, 6}, std::vector{kA}), "");
  EXPECT_FALSE(progress.compute(kA, {5, 6}, StepId(2), 0));
  EXPECT_TRUE(progress.compute(kA, {3, 5}, StepId(1), 0));
}

TEST(LayerProgress, RetractedChunksAreAnnouncedAgain) {
  LayerProgress progress(2);
  progress.begin(0);
  EXPECT_EQ(progress.announce({0, 5}, kBoth), "");
  EXPECT_EQ(progress.announce({5, 9}, kBoth), "");
  progress.retract({0, 5}, kBoth);
  progress.retract({5, 9}, kBoth);
  EXPECT_EQ(progress.announce({0, 9}, kBoth), "");
  // What is computed stays.
  EXPECT_TRUE(progress.compute(kA, {0, 9}, StepId(3), 0));
  progress.retract({0, 9}, kBoth);
  EXPECT_EQ(progress.announce({9, 10}, std::vector{kA}), "");
  EXPECT_EQ(progress.announce({0, 10}, std::vector{kB}), "");
}

// Whatever the order of events, each layer's tokens are taken once, in order, and to the end.
TEST(LayerProgress, TakesEveryTokenOnce) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::uint32_t n) {
      return static_cast<std::uint32_t>(random() % n);
    };
    const std::uint32_t layers = 1 + below(4);
    const std::uint32_t tokens = 1 + below(20);
    const TokenRange sent{below(tokens), tokens};
    const std::uint32_t cached = below(tokens + 1);
    LayerProgress progress(layers);
    std::vector<std::uint32_t> computed(layers, cached);
    std::vector<std::uint32_t> taken(layers, sent.first);
    const std::uint32_t open_after = below(20);
    progress.begin(cached);
    for (std::uint32_t turn = 0; turn < 2000 && !progress.complete(); ++turn) {
      if (turn == open_after) progress.open(sent);
      const std::uint32_t layer = below(layers);
      if (computed[layer] < tokens && below(2) == 0) {
        const std::uint32_t end = computed[layer] + 1 + below(tokens - computed[layer]);
        ASSERT_TRUE(progress.compute(LayerIndex(layer), {computed[layer], end}, StepId(1), 0));
        computed[layer] = end;
      }
      if (below(3) == 0) continue;
      if (const auto part = progress.take()) {
        const std::uint32_t index = part->layer.value();
        ASSERT_GE(turn, open_after);
        ASSERT_EQ(part->tokens.first, taken[index]);
        ASSERT_GT(part->tokens.end, part->tokens.first);
        ASSERT_LE(part->tokens.end, std::min(computed[index], sent.end));
        taken[index] = part->tokens.end;
      }
    }
    EXPECT_TRUE(progress.complete());
    for (const std::uint32_t end : taken) EXPECT_EQ(end, sent.end);
  }
}

}  // namespace
}  // namespace kvrail

#include "support/request_pools.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kvrail/kv_builders.h"

namespace mock_engine {
namespace {

using kvrail::DpRank;

kvrail::KvLayout layout_of(bool windows, std::uint32_t context_slots = 0) {
  kvrail::KvCacheOptions options;
  options.model = {.name = "tiny", .layers = 2, .kv_heads = 1, .head_size = 8, .hidden_size = 8};
  if (windows) {
    options.model.layer_kinds = {kvrail::LayerKind::kFull, kvrail::LayerKind::kWindow};
    options.model.window_tokens = 20;
  }
  options.model.draft_layers = windows ? 0 : 1;
  options.page_tokens = 16;
  options.page_count = 8;
  options.context_slots = context_slots;
  const kvrail::RankMemory memory;
  return make_kv_layout(options, {&memory, 1});
}

TEST(RequestPools, FindPrefixesThatEveryGroupHas) {
  RequestPools pools(layout_of(false), DpRank(0));
  const Prompt prompt("r", 49, 64, {1});
  const auto first = pools.take(prompt, false);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->cached_tokens, 0u);
  std::uint32_t published = 0;
  pools.publish(prompt, *first, 40, [&](auto&&...) { ++published; });
  EXPECT_EQ(published, 4u) << "two full pages in each of two groups";
  const auto second = pools.take(prompt, false);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->cached_tokens, 32u);
  pools.release(*first);
  pools.release(*second);
  EXPECT_TRUE(pools.all_free());
}

TEST(RequestPools, TakeTheCachedFrontAndNewPagesBehindIt) {
  RequestPools pools(layout_of(false), DpRank(0));
  const Prompt long_one("r", 49, 16, {1, 2, 3, 4});
  const auto first = pools.take(long_one, false);
  ASSERT_TRUE(first);
  pools.publish(long_one, *first, 48, [](auto&&...) {});
  const auto half = pools.take(Prompt("s", 48, 16, {1, 9, 3}), false);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->cached_tokens, 16u);
  EXPECT_EQ(half->pages.by_group[0][0], first->pages.by_group[0][0]);
  EXPECT_NE(half->pages.by_group[0][1], first->pages.by_group[0][1]);
  const auto exact = pools.take(Prompt("t", 48, 16, {1, 2, 3}), false);
  ASSERT_TRUE(exact);
  EXPECT_EQ(exact->cached_tokens, 32u) << "the page of the last token is never a cached one";
}

TEST(RequestPools, LeaveATokenToComputeForTheContext) {
  RequestPools pools(layout_of(false, 1), DpRank(0));
  const Prompt prompt("r", 49, 64, {1});
  const auto first = pools.take(prompt, true);
  ASSERT_TRUE(first && first->slot);
  EXPECT_FALSE(pools.take(prompt, true)) << "the only slot is taken";
  pools.publish(prompt, *first, 48, [](auto&&...) {});
  pools.release(*first);
  EXPECT_EQ(pools.take(prompt, true)->cached_tokens, 32u);
}

TEST(RequestPools, GiveAWindowItsLastPagesOnly) {
  RequestPools pools(layout_of(true), DpRank(0));
  const Prompt prompt("r", 100, 128, {1});
  const auto held = pools.take(prompt, false);
  ASSERT_TRUE(held);
  const PageTable& window = held->pages.by_group[1];
  ASSERT_EQ(window.size(), 7u);
  EXPECT_EQ(std::count(window.begin(), window.end(), kNoPage), 4) << "token 79 is in page 4";
  pools.release(*held);
  EXPECT_TRUE(pools.all_free());
  EXPECT_FALSE(pools.take(Prompt("s", 129, 256, {2}), false)) << "9 pages of 8";
  EXPECT_TRUE(pools.all_free()) << "takes all or nothing";
}

}  // namespace
}  // namespace mock_engine

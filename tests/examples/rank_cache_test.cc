#include "support/rank_cache.h"

#include <gtest/gtest.h>

#include <map>

#include "kvrail/kv_builders.h"

namespace mock_engine {
namespace {

using kvrail::ContextSlot;
using kvrail::PageIndex;
using kvrail::RegionId;
using kvrail::TokenRange;

constexpr std::uint32_t kPages = 8;
constexpr std::uint32_t kPageTokens = 4;

kvrail::KvCacheOptions small() {
  kvrail::KvCacheOptions options;
  options.model = {.name = "tiny", .layers = 3, .kv_heads = 4, .head_size = 8, .hidden_size = 10};
  options.page_tokens = kPageTokens;
  options.page_count = kPages;
  options.state_count = 2;
  return options;
}

kvrail::KvCacheOptions hybrid() {
  using enum kvrail::LayerKind;
  kvrail::KvCacheOptions options = small();
  options.model.layer_kinds = {kFull, kWindow, kState};
  options.model.window_tokens = 5;
  options.model.states = {{"s", 4, 24}};
  options.model.draft_layers = 1;
  options.context_slots = 2;
  return options;
}

// All ranks of a node with their memory, all of it poisoned.
class Rig {
 public:
  explicit Rig(const kvrail::KvCacheOptions& options) {
    std::vector<kvrail::RankMemory> ranks;
    for (std::uint32_t rank = 0; rank < rank_count(options); ++rank) {
      ranks.push_back({RegionId(rank + 1), kvrail::DeviceGroupId(0)});
      memory.emplace_back(region_bytes(options, kvrail::RankIndex(rank)));
    }
    layout = make_kv_layout(options, ranks);
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      caches.emplace_back(layout, kvrail::RankIndex(rank), memory[rank]);
      caches.back().poison_all();
    }
  }

  void fill(const Prompt& prompt, TokenRange tokens, const kvrail::RequestPages& pages) {
    for (RankCache& cache : caches) {
      for (std::uint32_t layer = 0; layer < cache.layer_count(); ++layer) {
        cache.fill(layer, prompt, tokens, pages);
      }
    }
  }

  Damage check(const Prompt& prompt, const kvrail::RequestPages& pages,
               std::optional<ContextSlot> slot = std::nullopt) const {
    Damage sum;
    for (const RankCache& cache : caches) sum += cache.check(prompt, pages, slot, true);
    return sum;
  }

  std::uint64_t all_not_poison() const {
    std::uint64_t count = 0;
    for (const auto& bytes : memory) count += count_not_poison(bytes);
    return count;
  }

  kvrail::KvLayout layout;
  std::vector<std::vector<std::byte>> memory;
  std::vector<RankCache> caches;
};

PageTable table(std::initializer_list<std::uint32_t> pages) {
  PageTable result;
  for (const std::uint32_t page : pages) result.emplace_back(page);
  return result;
}

const Prompt kPrompt("r", 11, 16, {1});
const Prompt kOther("s", 11, 16, {2});

class RankCacheShapes
    : public testing::TestWithParam<std::tuple<std::uint32_t, kvrail::PageOrder, bool>> {};

TEST_P(RankCacheShapes, WriteTheTokensAskedForAndNothingElse) {
  const auto [tensor_parallel, order, latent] = GetParam();
  kvrail::KvCacheOptions options = small();
  options.tensor_parallel = tensor_parallel;
  options.order = order;
  if (latent) options.model.latent_size = 20;
  Rig rig(options);
  const kvrail::RequestPages pages{{table({5, 0, 6})}, {}};
  rig.fill(kPrompt, {0, 7}, pages);
  rig.fill(kPrompt, {7, 10}, pages);
  EXPECT_EQ(rig.check(kPrompt, pages), Damage{});
  const std::uint64_t token_bytes =
      latent ? 40 * tensor_parallel : 2 * 16 * std::max(4u, tensor_parallel);
  const std::uint64_t written = rig.all_not_poison();
  EXPECT_LE(written, 3 * 10 * token_bytes);
  EXPECT_GE(written, 3 * 10 * token_bytes * 9 / 10) << "a byte may equal the poison by chance";
}

INSTANTIATE_TEST_SUITE_P(All, RankCacheShapes,
                         testing::Combine(testing::Values(1, 2, 4, 8),
                                          testing::Values(kvrail::PageOrder::kHnd,
                                                          kvrail::PageOrder::kNhd),
                                          testing::Bool()));

TEST(RankCache, FindsAnotherRequestsBytesAndSwappedPages) {
  Rig rig(small());
  const kvrail::RequestPages pages{{table({1, 2, 3})}, {}};
  rig.fill(kPrompt, {0, 10}, pages);
  EXPECT_GT(rig.check(kOther, pages).wrong_bytes, 0u);
  EXPECT_GT(rig.check(kPrompt, {{table({2, 1, 3})}, {}}).wrong_bytes, 0u);
  EXPECT_EQ(rig.check(kPrompt, pages), Damage{});
}

TEST(RankCache, FindsOneBadByteAnywhere) {
  Rig rig(small());
  const kvrail::RequestPages pages{{table({0, 1, 2})}, {}};
  rig.fill(kPrompt, {0, 10}, pages);
  std::uint64_t found = 0;
  for (std::byte& byte : rig.memory[0]) {
    byte ^= std::byte{1};
    const Damage damage = rig.check(kPrompt, pages);
    found += damage.wrong_bytes + damage.canary_bytes;
    byte ^= std::byte{1};
  }
  EXPECT_EQ(found, 3u * 3 * kPageTokens * 2 * 4 * 16) << "of three pages of three layers";
}

TEST(RankCache, DealsTokensAndLayersOut) {
  kvrail::KvCacheOptions options = small();
  options.context_parallel = 2;
  options.pipeline_parallel = 3;
  Rig rig(options);
  const kvrail::RequestPages pages{{table({5, 2})}, {}};
  rig.fill(kPrompt, {0, 3}, pages);
  rig.fill(kPrompt, {3, 10}, pages);
  EXPECT_EQ(rig.check(kPrompt, pages), Damage{});
  EXPECT_LE(rig.all_not_poison(), 3u * 10 * 2 * 4 * 16) << "each row is on one rank";
  EXPECT_GT(rig.check(kPrompt, {{table({2, 5})}, {}}).wrong_bytes, 0u);
}

TEST(RankCache, KeepsWindowsStatesDraftsAndContexts) {
  Rig rig(hybrid());
  ASSERT_EQ(rig.layout.groups.size(), 4u);
  // The window of 5 tokens before token 10 begins in the second page.
  std::map<std::string, PageTable> tables{{"full", table({1, 2, 3})},
                                          {"window", {kNoPage, PageIndex(7), PageIndex(4)}},
                                          {"state", table({1})},
                                          {"draft", table({3, 2, 1})}};
  kvrail::RequestPages pages;
  for (const auto& group : rig.layout.groups) pages.by_group.push_back(tables.at(group.name));
  rig.fill(kPrompt, {0, 6}, pages);
  EXPECT_GT(rig.check(kPrompt, pages).wrong_bytes, 0u);
  rig.fill(kPrompt, {6, 10}, pages);
  for (RankCache& cache : rig.caches) cache.fill_context(kPrompt, ContextSlot(1));
  EXPECT_EQ(rig.check(kPrompt, pages, ContextSlot(1)), Damage{});
  EXPECT_GT(rig.check(kPrompt, pages, ContextSlot(0)).wrong_bytes, 0u);
  EXPECT_LE(rig.all_not_poison(), (10u + 5 + 10) * 2 * 4 * 16 + 4 * 24 + 20);

  for (RankCache& cache : rig.caches) cache.poison(pages, ContextSlot(1));
  EXPECT_EQ(rig.all_not_poison(), 0u);
}

}  // namespace
}  // namespace mock_engine

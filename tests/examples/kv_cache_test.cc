#include "support/kv_cache.h"

#include <gtest/gtest.h>

#include "kvrail/kv_builders.h"

namespace mock_engine {
namespace {

using kvrail::PageIndex;
using kvrail::RegionId;
using kvrail::TokenRange;

constexpr std::uint32_t kPages = 8;
constexpr std::uint32_t kPageTokens = 4;

// A cache with its memory, all of it poisoned.
class Rig {
 public:
  explicit Rig(std::uint32_t tensor_parallel = 1, kvrail::PageOrder order = kvrail::PageOrder::kHnd,
               bool latent = false) {
    kvrail::KvCacheOptions options;
    options.model = {.name = "tiny", .layers = 3, .kv_heads = 4, .head_size = 8};
    if (latent) options.model.latent_size = 20;
    options.tensor_parallel = tensor_parallel;
    options.page_tokens = kPageTokens;
    options.page_count = kPages;
    options.order = order;
    std::vector<kvrail::RankMemory> ranks;
    for (std::uint32_t rank = 0; rank < tensor_parallel; ++rank) {
      ranks.push_back({RegionId(rank + 1), kvrail::DeviceGroupId(0)});
      memory.emplace_back(region_bytes(options, kvrail::RankIndex(rank)));
    }
    for (std::uint32_t rank = 0; rank < tensor_parallel; ++rank) {
      regions.emplace(RegionId(rank + 1), memory[rank]);
    }
    cache.emplace(make_kv_layout(options, ranks), regions);
    for (std::uint32_t page = 0; page < kPages; ++page) cache->poison(PageIndex(page));
  }

  void fill(const Prompt& prompt, TokenRange tokens, const PageTable& pages) {
    for (std::uint32_t layer = 0; layer < 3; ++layer) cache->fill(prompt, tokens, pages, layer);
  }

  std::uint64_t all_not_poison() const {
    std::uint64_t count = 0;
    for (std::uint32_t page = 0; page < kPages; ++page) {
      count += cache->count_not_poison(PageIndex(page));
    }
    return count;
  }

  std::vector<std::vector<std::byte>> memory;
  RegionMemory regions;
  std::optional<KvCache> cache;
};

PageTable table(std::initializer_list<std::uint32_t> pages) {
  PageTable result;
  for (const std::uint32_t page : pages) result.emplace_back(page);
  return result;
}

const Prompt kPrompt("r", 11, 16, {1});
const Prompt kOther("s", 11, 16, {2});

class KvCacheShapes
    : public testing::TestWithParam<std::tuple<std::uint32_t, kvrail::PageOrder, bool>> {};

TEST_P(KvCacheShapes, WritesTheTokensAskedForAndNothingElse) {
  const auto [tensor_parallel, order, latent] = GetParam();
  Rig rig(tensor_parallel, order, latent);
  const PageTable pages = table({5, 0, 6});
  rig.fill(kPrompt, {0, 7}, pages);
  rig.fill(kPrompt, {7, 10}, pages);
  EXPECT_EQ(rig.cache->count_wrong(kPrompt, {0, 10}, pages), 0u);
  EXPECT_EQ(rig.cache->count_not_poison(PageIndex(6), 2), 0u);
  EXPECT_EQ(rig.cache->count_not_poison(PageIndex(1)), 0u);
  const std::uint64_t token_bytes =
      latent ? 40 * tensor_parallel : 2 * 16 * std::max(4u, tensor_parallel);
  const std::uint64_t written = rig.all_not_poison();
  EXPECT_LE(written, 3 * 10 * token_bytes);
  EXPECT_GE(written, 3 * 10 * token_bytes * 9 / 10) << "a byte may equal the poison by chance";
}

INSTANTIATE_TEST_SUITE_P(All, KvCacheShapes,
                         testing::Combine(testing::Values(1, 2, 4, 8),
                                          testing::Values(kvrail::PageOrder::kHnd,
                                                          kvrail::PageOrder::kNhd),
                                          testing::Bool()));

TEST(KvCache, FindsAnotherRequestsBytesAndSwappedPages) {
  Rig rig;
  const PageTable pages = table({1, 2, 3});
  rig.fill(kPrompt, {0, 10}, pages);
  EXPECT_GT(rig.cache->count_wrong(kOther, {0, 10}, pages), 0u);
  EXPECT_GT(rig.cache->count_wrong(kPrompt, {0, 10}, table({2, 1, 3})), 0u);
  EXPECT_EQ(rig.cache->count_wrong(kPrompt, {0, 10}, pages), 0u);
}

TEST(KvCache, FindsOneBadByteAnywhere) {
  Rig rig;
  const PageTable pages = table({0, 1, 2});
  rig.fill(kPrompt, {0, 10}, pages);
  std::uint64_t found = 0;
  for (std::byte& byte : rig.memory[0]) {
    byte ^= std::byte{1};
    found += rig.cache->count_wrong(kPrompt, {0, 10}, pages) +
             rig.cache->count_not_poison(PageIndex(2), 2);
    byte ^= std::byte{1};
  }
  EXPECT_EQ(found, 3u * 3 * kPageTokens * 2 * 4 * 16) << "of three pages of three layers";
}

}  // namespace
}  // namespace mock_engine

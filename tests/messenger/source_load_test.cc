#include "messenger/source_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

#include "kvrail/kv_builders.h"

namespace kvrail {
namespace {

KvLayout layout_of(const KvCacheOptions& options) {
  std::vector<RankMemory> memory;
  for (std::uint32_t r = 0; r < rank_count(options); ++r) {
    memory.push_back({RegionId{r}, DeviceGroupId{0}});
  }
  return make_kv_layout(options, memory);
}

// Every rank holds the whole latent of 64 bytes a token.
KvCacheOptions latent() {
  KvCacheOptions options;
  options.model.name = "latent";
  options.model.layers = 1;
  options.model.latent_size = 32;
  options.page_count = 4096;
  return options;
}

// Bytes that each of eight ranks was given, for requests that overlap in time.
std::vector<std::uint64_t> given_bytes(const TransferPlan& plan, std::size_t open_at_a_time,
                                       int requests) {
  const auto load = std::make_shared<SourceLoad>(8);
  std::mt19937 random(7);
  std::vector<std::uint64_t> bytes(8, 0);
  std::deque<SourceLoad::Share> open;
  for (int i = 0; i < requests; ++i) {
    // From a few tokens to a long prompt, most of them short.
    const double size = std::exp(std::uniform_real_distribution<double>(2, 11)(random));
    const TokenRange sent{0, static_cast<std::uint32_t>(size)};
    auto [choice, share] = load->choose(plan, DpRank{0}, sent);
    for (std::uint32_t path = 0; path < plan.path_count(); ++path) {
      bytes[choice.source(PathIndex{path}).value()] += sent.end * std::uint64_t{64};
    }
    open.push_back(std::move(share));
    if (open.size() > open_at_a_time) {
      std::swap(open.front(), open[random() % open.size()]);
      open.pop_front();
    }
  }
  return bytes;
}

double spread(const std::vector<std::uint64_t>& bytes) {
  const double mean = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), 0ull)) /
                      static_cast<double>(bytes.size());
  return static_cast<double>(*std::max_element(bytes.begin(), bytes.end())) / mean;
}

TEST(SourceLoad, UsesRanksThatHoldTheSameAlike) {
  KvCacheOptions source = latent();
  source.tensor_parallel = 8;
  const TransferPlan plan(layout_of(source), layout_of(latent()));
  ASSERT_EQ(plan.path_count(), 1u);
  for (const std::size_t open : {0u, 1u, 4u, 32u, 200u}) {
    EXPECT_LT(spread(given_bytes(plan, open, 1000)), 1.25) << open << " open at a time";
  }
}

TEST(SourceLoad, EveryTargetRankIsServed) {
  KvCacheOptions source = latent();
  source.tensor_parallel = 8;
  const TransferPlan plan(layout_of(source), layout_of(source));
  ASSERT_EQ(plan.path_count(), 8u);
  EXPECT_LT(spread(given_bytes(plan, 4, 200)), 1.25);
}

TEST(SourceLoad, GivesBackWhatWasOutstanding) {
  KvCacheOptions source = latent();
  source.tensor_parallel = 2;
  const TransferPlan plan(layout_of(source), layout_of(latent()));
  const auto load = std::make_shared<SourceLoad>(2);
  const auto rank_of = [&](TokenRange sent, SourceLoad::Share& share) {
    auto [choice, given] = load->choose(plan, DpRank{0}, sent);
    share = std::move(given);
    return choice.source(PathIndex{0});
  };
  SourceLoad::Share large;
  const RankIndex busy = rank_of({0, 1000}, large);
  // As long as that is open, all small ones go to the other rank.
  std::vector<SourceLoad::Share> small(10);
  for (auto& share : small) EXPECT_NE(rank_of({0, 10}, share), busy);
  small.clear();
  // Nothing is outstanding then, and the other rank was given less in total.
  large = {};
  SourceLoad::Share last;
  EXPECT_NE(rank_of({0, 10}, last), busy);
}

TEST(SourceLoad, CountsWhatWasSent) {
  SourceLoad load(3);
  load.add_sent(RankIndex{2}, 5);
  load.add_sent(RankIndex{2}, 6);
  load.add_sent(RankIndex{0}, 1);
  EXPECT_THAT(load.sent_bytes(), ::testing::ElementsAre(1, 0, 11));
}

}  // namespace
}  // namespace kvrail

#include "messenger/messenger_pair.h"

// Nodes that shard, page and order their caches differently: every byte of every rank.

namespace kvrail {
namespace {

using Change = std::function<void(KvCacheOptions&)>;

struct Sharding {
  std::string name;
  Change both;
  Change prefill;
  Change decode;
};

void PrintTo(const Sharding& sharding, std::ostream* out) { *out << sharding.name; }

Change tensor_parallel(std::uint32_t ranks) {
  return [ranks](KvCacheOptions& cache) { cache.tensor_parallel = ranks; };
}

void eight_heads(KvCacheOptions& cache) { cache.model.kv_heads = 8; }
void latent(KvCacheOptions& cache) {
  cache.model.latent_size = 9;
  cache.model.indexer_bytes = 5;
}
void hybrid(KvCacheOptions& cache) {
  cache.model.kv_heads = 4;
  cache.model.layers = 5;
  cache.model.window_tokens = 11;
  cache.model.layer_kinds = {LayerKind::kFull, LayerKind::kWindow, LayerKind::kState,
                             LayerKind::kWindow, LayerKind::kState};
  cache.model.states = {{"recurrent", 4, 24}, {"conv", 2, 6}};
  cache.state_count = 40;
}

std::vector<Sharding> shardings() {
  std::vector<Sharding> all;
  for (const std::uint32_t from : {1u, 2u, 4u, 8u}) {
    for (const std::uint32_t to : {1u, 2u, 4u, 8u}) {
      all.push_back({"tp" + std::to_string(from) + "_to_tp" + std::to_string(to), eight_heads,
                     tensor_parallel(from), tensor_parallel(to)});
    }
  }
  const auto fewer_heads = [](KvCacheOptions& cache) { cache.model.kv_heads = 2; };
  all.push_back({"two_heads_tp8_to_tp4", fewer_heads, tensor_parallel(8), tensor_parallel(4)});
  all.push_back({"two_heads_tp1_to_tp8", fewer_heads, tensor_parallel(1), tensor_parallel(8)});
  all.push_back({"latent_tp8_to_dp8", latent, tensor_parallel(8),
                 [](KvCacheOptions& cache) { cache.data_parallel = 8; }});
  all.push_back({"latent_tp2_to_tp4", latent, tensor_parallel(2), tensor_parallel(4)});
  all.push_back({"dp2_to_dp3",
                 {},
                 [](KvCacheOptions& cache) { cache.data_parallel = 2; },
                 [](KvCacheOptions& cache) { cache.data_parallel = 3; }});
  all.push_back({"pp2_to_pp1", {}, [](KvCacheOptions& cache) { cache.pipeline_parallel = 2; }, {}});
  all.push_back({"pp3_tp2_to_pp2_tp1", eight_heads,
                 [](KvCacheOptions& cache) {
                   cache.pipeline_parallel = 3;
                   cache.tensor_parallel = 2;
                 },
                 [](KvCacheOptions& cache) { cache.pipeline_parallel = 2; }});
  const auto small_pages = [](KvCacheOptions& cache) { cache.page_tokens = 2; };
  all.push_back({"pages_of_8_to_2", {}, {}, small_pages});
  all.push_back({"pages_of_2_to_8", {}, small_pages, {}});
  all.push_back({"pages_of_6_to_8_tp2", eight_heads,
                 [](KvCacheOptions& cache) { cache.page_tokens = 6; }, tensor_parallel(2)});
  const auto nhd = [](KvCacheOptions& cache) { cache.order = PageOrder::kNhd; };
  all.push_back({"nhd_to_hnd", eight_heads, nhd, {}});
  all.push_back({"hnd_to_nhd_tp4", eight_heads, {}, [](KvCacheOptions& cache) {
                   cache.order = PageOrder::kNhd;
                   cache.tensor_parallel = 4;
                 }});
  all.push_back({"separate_to_value_first",
                 {},
                 [](KvCacheOptions& cache) { cache.fused_kv = false; },
                 [](KvCacheOptions& cache) { cache.value_first = true; }});
  all.push_back({"hybrid_tp2_to_tp4", hybrid, tensor_parallel(2), tensor_parallel(4)});
  all.push_back({"hybrid_pp2_to_small_pages", hybrid,
                 [](KvCacheOptions& cache) { cache.pipeline_parallel = 2; }, small_pages});
  all.push_back({"cp2_to_cp1", {}, [](KvCacheOptions& cache) { cache.context_parallel = 2; }, {}});
  all.push_back({"cp2_by_4_to_cp4_by_1", eight_heads,
                 [](KvCacheOptions& cache) {
                   cache.context_parallel = 2;
                   cache.cp_interleave_tokens = 4;
                   cache.tensor_parallel = 2;
                 },
                 [](KvCacheOptions& cache) { cache.context_parallel = 4; }});
  all.push_back({"draft_layers",
                 [](KvCacheOptions& cache) { cache.model.draft_layers = 2; },
                 tensor_parallel(2),
                 {}});
  return all;
}

class ShardingTest : public ::testing::TestWithParam<std::tuple<std::string, Sharding>> {
 protected:
  static MessengerPair make_pair() {
    const auto& [provider, sharding] = GetParam();
    return MessengerPair(provider, [&sharding = sharding](KvNodeOptions& options) {
      options.cache.page_count = 64;
      const Change& own = options.prefills ? sharding.prefill : sharding.decode;
      for (const Change& change : {sharding.both, own}) {
        if (change) change(options.cache);
      }
      // A device group of its own for every other rank.
      options.device_groups = rank_count(options.cache) > 1 ? 2 : 1;
    });
  }
  static DpRank last_dp_rank(const KvNode& node) { return node.layout().ranks.back().dp_rank; }
};

TEST_P(ShardingTest, EveryByteOfEveryRank) {
  MessengerPair pair = make_pair();
  KvNode& prefill = pair.prefill();
  KvNode& decode = pair.decode();
  // The first on the first data-parallel ranks, the second on the last ones, with a prefix that the
  // decode node has and one that the prefill node has.
  const TestPrompt first_source = prefill.prompt(1, 45, 3);
  const TestPrompt first_target = decode.prompt(1, 45, 5);
  decode.request(pair.peer(), "first", first_target);
  const RequestId first = prefill.take<PrefillRequestedEvent>().request.id;
  prefill.messenger().bind_pages(first, first_source.pages, 0);
  pair.run_chunks(first, first_source, 0, {7, 8, 30, 44});
  pair.finish(first_target, {0, 44});

  const TestPrompt second_source = prefill.prompt(2, 38, 30, last_dp_rank(prefill));
  const TestPrompt second_target = decode.prompt(2, 38, 32, last_dp_rank(decode));
  prefill.compute_all_layers(second_source, {0, 13});
  decode.request(pair.peer(), "second", second_target, 3);
  const RequestId second = prefill.take<PrefillRequestedEvent>().request.id;
  prefill.messenger().bind_pages(second, second_source.pages, 13);
  pair.run_chunks(second, second_source, 13, {20, 37});
  pair.finish(second_target, {3, 37});
}

std::string test_name(const ::testing::TestParamInfo<ShardingTest::ParamType>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Shardings, ShardingTest,
                         ::testing::Combine(::testing::Values("tcp", "shm"),
                                            ::testing::ValuesIn(shardings())),
                         test_name);

}  // namespace
}  // namespace kvrail

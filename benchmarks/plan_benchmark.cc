// What a plan costs on the data path: one layer of one chunk.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kvrail/kv_builders.h"
#include "kvrail/transfer_plan.h"
#include "layout/layer_writes.h"

namespace kvrail {
namespace {

struct Request {
  explicit Request(const benchmark::State& state)
      : sent{0, static_cast<std::uint32_t>(state.range(0)) * 1024},
        plan(layout_of(state), layout_of(state)),
        writer(plan) {
    std::mt19937_64 random(1);
    for (RequestPages* pages : {&source_pages, &target_pages}) {
      std::vector<PageIndex> table;
      for (std::uint32_t page = 0; page < plan.source().groups[0].page_count; ++page) {
        table.push_back(PageIndex{page});
      }
      std::shuffle(table.begin(), table.end(), random);
      pages->by_group.push_back(std::move(table));
    }
  }

  static KvLayout layout_of(const benchmark::State& state) {
    KvCacheOptions options;
    options.model = find_model_shape("Llama-3-70B");
    options.tensor_parallel = static_cast<std::uint32_t>(state.range(1));
    options.page_count = static_cast<std::uint32_t>(state.range(0)) * 1024 / options.page_tokens;
    std::vector<RankMemory> ranks;
    for (std::uint32_t r = 0; r < options.tensor_parallel; ++r) {
      ranks.push_back({RegionId{r}, DeviceGroupId{static_cast<std::uint16_t>(r)}});
    }
    return make_kv_layout(options, ranks);
  }

  TokenRange sent;
  TransferPlan plan;
  LayerWriter writer;
  RequestPages source_pages;
  RequestPages target_pages;
};

void append_runs(benchmark::State& state) {
  const Request request(state);
  std::vector<PlannedRun> runs;
  for (auto _ : state) {
    runs.clear();
    request.plan.append_runs(CacheGroupIndex{0}, request.sent, request.sent, request.source_pages,
                             request.target_pages, runs);
    benchmark::DoNotOptimize(runs.data());
  }
  state.counters["runs"] = static_cast<double>(runs.size());
}

void layer_writes(benchmark::State& state) {
  const Request request(state);
  std::vector<PlannedRun> runs;
  request.plan.append_runs(CacheGroupIndex{0}, request.sent, request.sent, request.source_pages,
                           request.target_pages, runs);
  for (auto _ : state) {
    std::vector<RegionWrites> writes;
    request.writer.append(LayerIndex{40}, runs, writes);
    benchmark::DoNotOptimize(writes.data());
  }
  state.counters["runs"] = static_cast<double>(runs.size());
}

void units(benchmark::State& state) {
  const Request request(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(request.plan.units_by_target_rank(request.sent));
  }
}

void build_plan(benchmark::State& state) {
  const KvLayout layout = Request::layout_of(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(TransferPlan(layout, layout));
  }
}

// Thousands of tokens, ranks.
BENCHMARK(append_runs)->ArgsProduct({{8, 128}, {1, 8}})->Unit(benchmark::kMicrosecond);
BENCHMARK(layer_writes)->ArgsProduct({{8, 128}, {1, 8}})->Unit(benchmark::kMicrosecond);
BENCHMARK(units)->ArgsProduct({{8, 128}, {1, 8}})->Unit(benchmark::kMicrosecond);
BENCHMARK(build_plan)->ArgsProduct({{128}, {1, 8}})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvrail

// What a plan costs: once per request, and for each of its layers.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kvrail/kv_builders.h"
#include "kvrail/transfer_plan.h"
#include "layout/layer_writes.h"

namespace kvrail {
namespace {

// Thousands of tokens; tensor-parallel ranks of the source and of the target; whether the target
// has the other order of heads and tokens.
struct Request {
  explicit Request(const benchmark::State& state)
      : sent{0, static_cast<std::uint32_t>(state.range(0)) * 1024},
        plan(layout_of(state, state.range(1), false), layout_of(state, state.range(2), true)),
        writer(plan),
        sources(choose()) {
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

  static KvLayout layout_of(const benchmark::State& state, std::int64_t ranks, bool is_target) {
    KvCacheOptions options;
    options.model = find_model_shape("Llama-3-70B");
    options.tensor_parallel = static_cast<std::uint32_t>(ranks);
    options.page_count = static_cast<std::uint32_t>(state.range(0)) * 1024 / options.page_tokens;
    if (is_target && state.range(3) != 0) options.order = PageOrder::kNhd;
    std::vector<RankMemory> memory;
    for (std::uint32_t r = 0; r < options.tensor_parallel; ++r) {
      memory.push_back({RegionId{r}, DeviceGroupId{static_cast<std::uint16_t>(r)}});
    }
    return make_kv_layout(options, memory);
  }

  SourceChoice choose() const {
    return plan.choose_sources(DpRank{0}, sent,
                               [](std::span<const RankIndex>, std::uint64_t) { return 0; });
  }

  void append_runs(std::vector<PlannedRun>& runs) const {
    plan.append_runs(CacheGroupIndex{0}, sent, sent, sources, source_pages, target_pages, runs);
  }

  TokenRange sent;
  TransferPlan plan;
  LayerWriter writer;
  SourceChoice sources;
  RequestPages source_pages;
  RequestPages target_pages;
};

void count(benchmark::State& state, const std::vector<PlannedRun>& runs) {
  std::uint64_t ranges = 0;
  for (const PlannedRun& run : runs) ranges += run.count;
  state.counters["runs"] = static_cast<double>(runs.size());
  state.counters["ranges"] = static_cast<double>(ranges);
}

// All that is done once per request and cache group, on the side that sends.
void plan_request(benchmark::State& state) {
  const Request request(state);
  std::vector<PlannedRun> runs;
  for (auto _ : state) {
    runs.clear();
    benchmark::DoNotOptimize(request.plan.units_by_target_rank(DpRank{0}, request.sent));
    benchmark::DoNotOptimize(request.choose());
    request.append_runs(runs);
    benchmark::DoNotOptimize(runs.data());
  }
  count(state, runs);
}

void layer_writes(benchmark::State& state) {
  const Request request(state);
  std::vector<PlannedRun> runs;
  request.append_runs(runs);
  for (auto _ : state) {
    std::vector<RegionWrites> writes;
    request.writer.append(LayerIndex{40}, runs, writes);
    benchmark::DoNotOptimize(writes.data());
  }
  count(state, runs);
}

void build_plan(benchmark::State& state) {
  const KvLayout source = Request::layout_of(state, state.range(1), false);
  const KvLayout target = Request::layout_of(state, state.range(2), true);
  for (auto _ : state) {
    benchmark::DoNotOptimize(TransferPlan(source, target));
  }
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"Ktokens", "from_tp", "to_tp", "reorder"})
      ->Args({8, 1, 1, 0})
      ->Args({128, 1, 1, 0})
      ->Args({128, 8, 8, 0})
      ->Args({128, 8, 4, 0})
      ->Args({128, 4, 8, 0})
      ->Args({128, 8, 4, 1})
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK(plan_request)->Apply(shapes);
BENCHMARK(layer_writes)->Apply(shapes);
BENCHMARK(build_plan)->Apply(shapes);

}  // namespace
}  // namespace kvrail

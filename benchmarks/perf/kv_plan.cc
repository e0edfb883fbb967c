#include "perf/kv_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>
#include <utility>

#include "kvrail/error.h"

namespace kvrail::perf {
namespace {

constexpr std::uint32_t kSignalLayers = 8;
constexpr std::uint32_t kSignalLayerUs = 300;
// A word of the pattern.
constexpr std::uint64_t kAlignment = 8;

KvLayout layout_of(const KvCacheOptions& options) {
  std::vector<RankMemory> ranks;
  for (std::uint32_t rank = 0; rank < rank_count(options); ++rank) {
    ranks.push_back({RegionId(rank), DeviceGroupId{0}});
  }
  return make_kv_layout(options, ranks);
}

// Where each tensor of each layer begins in the memory of one side.
class Bases {
 public:
  Bases(const KvCacheOptions& options, const KvLayout& layout) {
    for (std::uint32_t rank = 0; rank < layout.ranks.size(); ++rank) {
      const auto& groups = layout.ranks[rank].groups;
      for (std::uint32_t group = 0; group < groups.size(); ++group) {
        for (const TensorPlacement& placement : groups[group].placements) {
          bases_[{rank, placement.layer.value(), placement.tensor}] =
              end_ + placement.base_offset_bytes;
        }
      }
      end_ += kv_bytes(options, RankIndex(rank));
    }
  }

  std::uint64_t at(RankIndex rank, LayerIndex layer, std::uint32_t tensor) const {
    return bases_.at({rank.value(), layer.value(), tensor});
  }
  std::uint64_t end() const { return end_; }

 private:
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint64_t> bases_;
  std::uint64_t end_ = 0;
};

// Takes the ranks that have sent least so far.
class Balance {
 public:
  std::size_t operator()(std::span<const RankIndex> ranks, std::uint64_t bytes) {
    const auto least = std::min_element(ranks.begin(), ranks.end(), [&](RankIndex a, RankIndex b) {
      return bytes_[a.value()] < bytes_[b.value()];
    });
    bytes_[least->value()] += bytes;
    return static_cast<std::size_t>(least - ranks.begin());
  }

 private:
  std::map<std::uint32_t, std::uint64_t> bytes_;
};

RequestPages request_pages(const KvLayout& layout, Layout order, std::uint32_t pages,
                           PlanSide side) {
  RequestPages tables;
  for (const CacheGroup& group : layout.groups) {
    auto& table = tables.by_group.emplace_back();
    if (group.kind == CacheKind::kState) {
      table.emplace_back(0);
    } else {
      for (const std::uint32_t number : page_numbers(order, pages, side)) {
        table.emplace_back(number);
      }
    }
  }
  return tables;
}

void append(const PlannedRun& run, std::uint64_t source_base, std::uint64_t target_base,
            std::vector<PagePlan::Page>& pages) {
  for (std::uint32_t i = 0; i < run.count; ++i) {
    const PagePlan::Page page = {
        source_base + run.source_offset_bytes + i * run.source_stride_bytes,
        target_base + run.target_offset_bytes + i * run.target_stride_bytes, run.size_bytes};
    if (page.source_offset % kAlignment != 0 || page.target_offset % kAlignment != 0 ||
        page.size_bytes % kAlignment != 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "--tokens and --chunk-tokens must be even with this model");
    }
    pages.push_back(page);
  }
}

// Fills in the pages of `kv`, whose other members are there.
void plan_pages(KvPlan& kv, Layout order) {
  const KvLayout source = layout_of(kv.prefill);
  const KvLayout target = layout_of(kv.decode);
  const std::uint32_t pages = kv.tokens / kv.prefill.page_tokens + 1;
  kv.source_pages = request_pages(source, order, pages, PlanSide::kSource);
  kv.target_pages = request_pages(target, order, pages, PlanSide::kTarget);
  const Bases source_bases(kv.prefill, source);
  const Bases target_bases(kv.decode, target);
  const TransferPlan plan(source, target);
  const TokenRange sent{0, kv.tokens};
  const SourceChoice sources = plan.choose_sources(DpRank{0}, sent, Balance{});
  std::vector<PlannedRun> runs;
  for (const TokenRange chunk : kv.chunks) {
    std::map<LayerIndex, std::vector<PagePlan::Page>> by_layer;
    for (std::uint32_t group = 0; group < source.groups.size(); ++group) {
      runs.clear();
      plan.append_runs(CacheGroupIndex(group), sent, chunk, sources, kv.source_pages,
                       kv.target_pages, runs);
      for (const LayerIndex layer : source.groups[group].layers) {
        for (const PlannedRun& run : runs) {
          if (!plan.path_holds(run.path, layer)) continue;
          append(run, source_bases.at(run.source_rank, layer, run.tensor),
                 target_bases.at(run.target_rank, layer, run.tensor), by_layer[layer]);
        }
      }
    }
    for (const auto& [layer, added] : by_layer) {
      kv.pages.pages.insert(kv.pages.pages.end(), added.begin(), added.end());
      kv.pages.list_ends.push_back(static_cast<std::uint32_t>(kv.pages.pages.size()));
    }
  }
  kv.pages.area_bytes = std::max(source_bases.end(), target_bases.end());
}

KvCacheOptions cache_options(const ModelShape& model, std::uint32_t tensor_parallel,
                             std::uint32_t page_tokens, std::uint32_t page_count) {
  KvCacheOptions options;
  options.model = model;
  options.tensor_parallel = tensor_parallel;
  options.page_tokens = page_tokens;
  options.page_count = page_count;
  const auto& kinds = model.layer_kinds;
  options.state_count = std::count(kinds.begin(), kinds.end(), LayerKind::kState) > 0 ? 1 : 0;
  return options;
}

}  // namespace

ModelShape find_model(const std::string& name, const std::string& config) {
  if (!config.empty()) return model_shape_from_config(config, name);
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  // "llama-70b": the name of the family, whatever its version.
  const std::string wanted = lower(name) == "llama-70b" ? "llama-3-70b" : lower(name);
  for (const ModelShape& shape : known_model_shapes()) {
    if (lower(shape.name).starts_with(wanted)) return shape;
  }
  try {
    return find_model_shape(name);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("--model: {}; or give the path of a config.json", error.what()));
  }
}

KvPlan make_kv_plan(const Settings& settings) {
  const ModelShape model = find_model(settings.model, settings.model_config);
  KvPlan kv;
  kv.tokens = settings.tokens;
  const std::uint32_t step = settings.chunk_tokens == 0 ? settings.tokens : settings.chunk_tokens;
  for (std::uint32_t first = 0; first < kv.tokens; first += step) {
    kv.chunks.push_back({first, std::min(first + step, kv.tokens)});
  }
  const std::uint32_t page_count = page_room(settings.layout, kv.tokens / settings.page_tokens + 1);
  kv.prefill = cache_options(model, settings.tp_prefill, settings.page_tokens, page_count);
  kv.decode = cache_options(model, settings.tp_decode, settings.page_tokens, page_count);
  for (const KvCacheOptions* side : {&kv.prefill, &kv.decode}) {
    std::uint64_t bytes = 0;
    for (std::uint32_t rank = 0; rank < rank_count(*side); ++rank) {
      bytes += kv_bytes(*side, RankIndex(rank));
    }
    if (bytes > settings.max_memory_bytes) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} tokens of {} take {} MiB on one side: lower --tokens or raise "
                              "--max-memory",
                              kv.tokens, model.name, (bytes >> 20) + 1));
    }
  }
  plan_pages(kv, settings.layout);
  return kv;
}

KvPlan make_signal_plan() {
  ModelShape model;
  model.name = "signals";
  model.layers = kSignalLayers;
  model.kv_heads = 1;
  model.head_size = 64;
  KvPlan kv;
  kv.tokens = 16;
  kv.chunks = {{0, kv.tokens}};
  kv.layer_us = kSignalLayerUs;
  kv.prefill = kv.decode = cache_options(model, 1, kv.tokens, 2);
  plan_pages(kv, Layout::kNeighbouring);
  return kv;
}

}  // namespace kvrail::perf

#include "layout/rank_shards.h"

#include <algorithm>
#include <string_view>

#include "layout/checked_math.h"
#include "layout/refuse.h"

namespace kvrail {
namespace {

// The number of tensor-parallel ranks that hold the same heads of the tensor.
std::uint32_t copies_of(const KvCacheOptions& options, const TensorLayout& tensor) {
  const std::uint32_t ranks = options.tensor_parallel;
  const auto [low, high] = std::minmax(tensor.heads, ranks);
  if (high % low != 0) {
    refuse("tensor_parallel is {}, but {} has {} heads of \"{}\"; one number must divide the other",
           ranks, options.model.name, tensor.heads, tensor.name);
  }
  return std::max(ranks / tensor.heads, 1u);
}

void check_range(std::string_view option, std::uint32_t value, std::uint32_t last) {
  if (value == 0 || value > last) refuse("{} is {}, but must be 1 to {}", option, value, last);
}

}  // namespace

void check_parallel(const KvCacheOptions& options) {
  check_range("tensor_parallel", options.tensor_parallel, kMaxRanks);
  check_range("pipeline_parallel", options.pipeline_parallel, kMaxRanks);
  check_range("context_parallel", options.context_parallel, kMaxRanks);
  check_range("data_parallel", options.data_parallel, kMaxRanks);
  check_range("cp_interleave_tokens", options.cp_interleave_tokens, kMaxPageTokens);
  if (options.pipeline_parallel > options.model.layers) {
    refuse("pipeline_parallel is {}, but {} has {} layers; each stage must have one",
           options.pipeline_parallel, options.model.name, options.model.layers);
  }
  const auto ranks = checked_product(options.tensor_parallel, options.pipeline_parallel,
                                     options.context_parallel, options.data_parallel);
  if (!ranks || *ranks > kMaxRanks) {
    refuse(
        "tensor_parallel {} x pipeline_parallel {} x context_parallel {} x data_parallel {} are "
        "more than {} ranks",
        options.tensor_parallel, options.pipeline_parallel, options.context_parallel,
        options.data_parallel, kMaxRanks);
  }
}

RankCoordinates coordinates_of(const KvCacheOptions& options, RankIndex rank) {
  std::uint32_t rest = rank.value();
  RankCoordinates at;
  at.tp = rest % options.tensor_parallel;
  rest /= options.tensor_parallel;
  at.cp = rest % options.context_parallel;
  rest /= options.context_parallel;
  at.pp = rest % options.pipeline_parallel;
  at.dp = rest / options.pipeline_parallel;
  if (at.dp >= options.data_parallel) {
    refuse("rank {} was asked for, but the options make {}", rank.value(), rank_count(options));
  }
  return at;
}

RankIndex rank_at(const KvCacheOptions& options, const RankCoordinates& at) {
  const std::uint32_t stage = at.dp * options.pipeline_parallel + at.pp;
  const std::uint32_t share = stage * options.context_parallel + at.cp;
  return RankIndex{share * options.tensor_parallel + at.tp};
}

LayerSpan stage_layers(const KvCacheOptions& options, std::uint32_t pp) {
  const std::uint32_t even = options.model.layers / options.pipeline_parallel;
  const std::uint32_t left_over = options.model.layers % options.pipeline_parallel;
  const auto first = [&](std::uint32_t stage) { return stage * even + std::min(stage, left_over); };
  const bool is_last = pp + 1 == options.pipeline_parallel;
  return {first(pp), is_last ? options.model.all_layers() : first(pp + 1)};
}

HeadRange heads_of(const KvCacheOptions& options, const TensorLayout& tensor, std::uint32_t tp) {
  const std::uint32_t count = std::max(tensor.heads / options.tensor_parallel, 1u);
  return {tp / copies_of(options, tensor) * count, count};
}

std::uint32_t replica_sets(const KvCacheOptions& options, std::span<const CacheGroup> groups) {
  std::uint32_t sets = options.tensor_parallel;
  for (const CacheGroup& group : groups) {
    for (const TensorLayout& tensor : group.tensors) {
      sets = std::min(sets, copies_of(options, tensor));
    }
  }
  return sets;
}

}  // namespace kvrail

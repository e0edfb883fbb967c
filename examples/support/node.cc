#include "support/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "support/model_file.h"

namespace mock_engine {
namespace {

constexpr double kGib = 1 << 30;

kvrail::MessengerOptions messenger_options(const Options& options) {
  kvrail::MessengerOptions result;
  result.fabric.provider = options.provider;
  result.fabric.bind_address = options.bind_address;
  result.fabric.device_groups.front().rails_per_nic = options.rails;
  if (options.role == Role::kPrefill) {
    result.listen = options.listen;
    result.listen_beyond_loopback = options.listen_beyond_loopback;
  }
  return result;
}

}  // namespace

kvrail::KvCacheOptions cache_options(const Options& options) {
  kvrail::KvCacheOptions cache;
  cache.model = find_model(options.model);
  cache.tensor_parallel = options.tensor_parallel;
  cache.page_tokens = options.page_tokens;
  cache.page_count = 1;
  const auto page_bytes = static_cast<double>(kv_bytes_per_rank(cache) * cache.tensor_parallel);
  cache.page_count =
      options.pool_pages > 0
          ? options.pool_pages
          : static_cast<std::uint32_t>(
                std::min(options.memory_gib * kGib / page_bytes, static_cast<double>(1 << 24)));
  if (cache.page_count == 0) {
    throw std::runtime_error(fmt::format(
        "--memory-gib: {:.3f} GiB per node hold no page; one page of {} tokens over all "
        "layers has {:.3f} GiB: raise it, or lower --page-tokens",
        options.memory_gib, options.page_tokens, page_bytes / kGib));
  }
  return cache;
}

void check_prompts_fit(const std::vector<PromptPtr>& prompts, const kvrail::KvCacheOptions& cache) {
  for (const PromptPtr& prompt : prompts) {
    const std::uint32_t pages = prompt->pages(cache.page_tokens);
    if (pages <= cache.page_count) continue;
    throw std::runtime_error(fmt::format(
        "request {} has {} tokens and needs {} pages, but the pool of a node holds {} ({} tokens): "
        "raise --pool-pages or --memory-gib, or ask for less (--prompt-tokens, --trace-scale)",
        prompt->external_id(), prompt->prompt_tokens(), pages, cache.page_count,
        std::uint64_t{cache.page_count} * cache.page_tokens));
  }
}

Node::Node(const Options& options)
    : cache_options_(mock_engine::cache_options(options)),
      messenger_(std::make_unique<kvrail::KvMessenger>(messenger_options(options))) {
  const kvrail::DeviceGroupId host(0);
  RegionMemory regions;
  std::vector<kvrail::RankMemory> ranks;
  for (std::uint32_t rank = 0; rank < cache_options_.tensor_parallel; ++rank) {
    memory_.emplace_back(region_bytes(cache_options_, kvrail::RankIndex(rank)));
    const std::span<std::byte> bytes = memory_.back().bytes();
    const kvrail::RegionId region = messenger_->register_memory(host, bytes.data(), bytes.size());
    regions.emplace(region, bytes);
    ranks.push_back({region, host});
  }
  layout_ = make_kv_layout(cache_options_, ranks);
  cache_ = std::make_unique<KvCache>(layout_, regions);
}

}  // namespace mock_engine

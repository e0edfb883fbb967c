#include "support/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "support/model_file.h"

namespace mock_engine {
namespace {

using kvrail::DeviceGroupId;
using kvrail::RankIndex;

constexpr double kGib = 1 << 30;

bool is_prefill(const Options& options) { return options.role == Role::kPrefill; }

kvrail::MessengerOptions messenger_options(const Options& options, std::uint32_t device_groups) {
  kvrail::MessengerOptions result;
  result.fabric.provider = options.provider;
  result.fabric.bind_address = options.bind_address;
  result.fabric.device_groups.front().rails_per_nic = options.rails;
  result.fabric.device_groups.resize(device_groups, result.fabric.device_groups.front());
  if (!options.key_file.empty()) {
    result.key = kvrail::PreSharedKey::from_file(options.key_file);
  }
  if (is_prefill(options)) {
    result.listen = options.listen;
    result.listen_beyond_loopback = options.listen_beyond_loopback;
  }
  return result;
}

double bytes_of_all_ranks(const kvrail::KvCacheOptions& cache) {
  double sum = 0;
  for (std::uint32_t rank = 0; rank < rank_count(cache); ++rank) {
    sum += static_cast<double>(region_bytes(cache, RankIndex(rank)));
  }
  return sum;
}

// As many pages as fit beside the states and the context slots.
std::uint32_t page_count(kvrail::KvCacheOptions cache, double memory_gib) {
  cache.page_count = 1;
  const double one = bytes_of_all_ranks(cache);
  cache.page_count = 2;
  const double page = bytes_of_all_ranks(cache) - one;
  const double free = memory_gib * kGib - (one - page);
  if (free < page) {
    throw std::runtime_error(fmt::format(
        "--memory-gib: {:.3f} GiB per node hold no page; states and context slots take {:.3f} GiB, "
        "and one page of {} tokens over all layers and ranks {:.3f} GiB: raise it, or lower "
        "--page-tokens or --concurrency",
        memory_gib, (one - page) / kGib, cache.page_tokens, page / kGib));
  }
  return static_cast<std::uint32_t>(std::min(free / page, static_cast<double>(1 << 24)));
}

// Regions and device groups are not known yet.
std::vector<kvrail::CacheGroup> groups_of(const kvrail::KvCacheOptions& cache) {
  std::vector<kvrail::RankMemory> ranks;
  for (std::uint32_t rank = 0; rank < rank_count(cache); ++rank) {
    ranks.push_back({kvrail::RegionId(rank), DeviceGroupId(0)});
  }
  return make_kv_layout(cache, ranks).groups;
}

}  // namespace

kvrail::KvCacheOptions cache_options(const Options& options) {
  const Sharding& sharding = is_prefill(options) ? options.prefill : options.decode;
  kvrail::KvCacheOptions cache;
  cache.model = find_model(options.model);
  cache.tensor_parallel = sharding.tensor_parallel;
  cache.pipeline_parallel = sharding.pipeline_parallel;
  cache.context_parallel = sharding.context_parallel;
  cache.data_parallel = sharding.data_parallel;
  cache.order = sharding.order;
  cache.page_tokens = sharding.page_tokens;
  cache.state_count = options.concurrency;
  if (options.context_bytes.value_or(cache.model.draft_layers) > 0) {
    cache.context_slots = options.concurrency;
    cache.context_slot_bytes = options.context_bytes.value_or(0);
  }
  cache.page_count =
      options.pool_pages > 0 ? options.pool_pages : page_count(cache, options.memory_gib);
  return cache;
}

void check_prompts_fit(const std::vector<PromptPtr>& prompts, const kvrail::KvCacheOptions& cache) {
  const std::vector<kvrail::CacheGroup> groups = groups_of(cache);
  for (const PromptPtr& prompt : prompts) {
    const kvrail::CacheGroup* group = too_small_pool(groups, *prompt);
    if (group == nullptr) continue;
    const kvrail::TokenRange entries = kept_entries(*group, *prompt);
    throw std::runtime_error(fmt::format(
        "request {} has {} tokens and needs {} pages, but the pool of a node holds {} ({} tokens): "
        "raise --pool-pages or --memory-gib, or ask for less (--prompt-tokens, --trace-scale)",
        prompt->external_id(), prompt->prompt_tokens(), entries.end - entries.first,
        group->page_count, std::uint64_t{group->page_count} * entry_tokens(*group)));
  }
}

Node::Node(const Options& options)
    : role_(is_prefill(options) ? "prefill" : "decode"),
      cache_options_(mock_engine::cache_options(options)),
      ranks_(cache_options_, fmt::format("{} node {}", role_, options.index)) {
  const std::uint32_t groups = std::min(options.device_groups, ranks_.count());
  messenger_ = std::make_unique<kvrail::KvMessenger>(messenger_options(options, groups));
  std::vector<kvrail::RankMemory> memory;
  for (std::uint32_t rank = 0; rank < ranks_.count(); ++rank) {
    const DeviceGroupId group(static_cast<std::uint16_t>(rank % groups));
    const std::span<std::byte> bytes = ranks_.memory(rank);
    memory.push_back({messenger_->register_memory(group, bytes.data(), bytes.size()), group});
  }
  layout_ = make_kv_layout(cache_options_, memory);
  ranks_.set_layout(layout_);
}

Event Node::ranks_event() const {
  return {{"event", "ranks"}, {"role", role_}, {"pids", ranks_.pids()}};
}

Event Node::traffic_event() const {
  const kvrail::MessengerStats stats = messenger_->stats();
  auto rails = Event::array();
  for (const kvrail::RailStats& rail : stats.fabric.rails) {
    rails.push_back({{"provider", rail.provider},
                     {"device_group", rail.device_group.value()},
                     {"rail", rail.rail.value()},
                     {"bytes", rail.bytes_posted}});
  }
  std::uint64_t runs = stats.fabric.closed_peers.runs_posted;
  for (const kvrail::PeerStats& peer : stats.fabric.peers) runs += peer.links.runs_posted;
  return {{"event", "traffic"},
          {"role", role_},
          {"runs", runs},
          {"rails", std::move(rails)},
          {"bytes_by_rank", stats.bytes_sent_by_rank}};
}

}  // namespace mock_engine

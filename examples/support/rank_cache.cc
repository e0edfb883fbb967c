#include "support/rank_cache.h"

#include <algorithm>

#include "support/content.h"
#include "support/mix.h"

namespace mock_engine {

using kvrail::CacheGroup;
using kvrail::ContextSlot;
using kvrail::RequestPages;
using kvrail::TokenRange;

RankCache::RankCache(const kvrail::KvLayout& layout, kvrail::RankIndex rank,
                     std::span<std::byte> memory)
    : model_seed_(mix64(layout.model)),
      groups_(layout.groups),
      rank_(layout.ranks.at(rank.value())),
      memory_(memory),
      layers_(layout.layer_count) {
  for (std::size_t group = 0; group < groups_.size(); ++group) add_tensors(layout, group);
  for (const kvrail::ContextLayout& context : layout.contexts) {
    if (context.rank == rank) context_ = context;
  }
}

void RankCache::add_tensors(const kvrail::KvLayout& layout, std::size_t group) {
  const kvrail::RankGroup& held = rank_.groups.at(group);
  const std::uint64_t page_tokens = groups_[group].page_tokens;
  for (const kvrail::LayerIndex layer : groups_[group].layers) {
    layers_.at(layer.value()).group = group;
  }
  for (const kvrail::TensorPlacement& at : held.placements) {
    const kvrail::TensorLayout& tensor = layout.groups[group].tensors.at(at.tensor);
    const kvrail::HeadRange heads = held.heads.at(at.tensor);
    const bool hnd = tensor.order == kvrail::PageOrder::kHnd;
    const std::uint64_t bytes = tensor.head_bytes;
    const std::uint64_t dense_head = hnd ? page_tokens * bytes : bytes;
    const std::uint64_t dense_token = hnd ? bytes : heads.count * bytes;
    layers_.at(at.layer.value())
        .tensors.push_back({
            .seed = layer_seed(model_seed_, at.layer.value(), at.tensor),
            .base = memory_.data() + at.base_offset_bytes,
            .page_stride = at.page_stride_bytes,
            .head_stride = at.head_stride_bytes != 0 ? at.head_stride_bytes : dense_head,
            .token_stride = at.token_stride_bytes != 0 ? at.token_stride_bytes : dense_token,
            .heads = heads,
            .head_bytes = tensor.head_bytes,
        });
  }
}

// All rows of these entries' pages, whether or not the prompt has a token there.
std::vector<RankCache::Row> RankCache::rows_of(const CacheGroup& group, const Prompt& prompt,
                                               TokenRange entries) const {
  if (is_state(group)) return {{0, 0, prompt.prefill_tokens() - 1}};
  std::vector<Row> rows;
  const std::uint32_t together = group.cp_interleave_tokens;
  const std::uint32_t cp_rank = group.cp_ranks > 1 ? rank_.cp_rank : 0;
  for (std::uint32_t entry = entries.first; entry < entries.end; ++entry) {
    for (std::uint32_t slot = 0; slot < group.page_tokens; ++slot) {
      const std::uint32_t own = entry * group.page_tokens + slot;  // among those of this cp_rank
      const std::uint32_t token =
          (own / together * group.cp_ranks + cp_rank) * together + own % together;
      rows.push_back({entry, slot, token});
    }
  }
  return rows;
}

namespace {

bool contains(TokenRange range, std::uint32_t token) {
  return range.first <= token && token < range.end;
}

TokenRange entries_of(const CacheGroup& group, TokenRange tokens) {
  const std::uint32_t size = entry_tokens(group);
  return {tokens.first / size, (tokens.end + size - 1) / size};
}

}  // namespace

// All of them on every head that the rank holds.
template <class Visit>
void RankCache::for_each(const std::vector<Row>& rows, const std::vector<Tensor>& tensors,
                         const PageTable& table, Visit visit) {
  for (const Tensor& tensor : tensors) {
    for (std::uint32_t head = 0; head < tensor.heads.count; ++head) {
      for (const Row& row : rows) {
        visit(tensor.row(table[row.entry], row.slot, head), tensor, head, row);
      }
    }
  }
}

void RankCache::fill(std::uint32_t layer, const Prompt& prompt, TokenRange tokens,
                     const RequestPages& pages) {
  const auto& [group_index, tensors] = layers_.at(layer);
  const CacheGroup& group = groups_[group_index];
  const TokenRange now = intersect(kept_tokens(group, prompt), tokens);
  if (tensors.empty() || now.empty()) return;
  auto rows = rows_of(group, prompt, entries_of(group, now));
  std::erase_if(rows, [&](const Row& row) { return !contains(now, row.token); });
  for_each(rows, tensors, pages.by_group[group_index],
           [&](auto bytes, const Tensor& tensor, std::uint32_t head, const Row& row) {
             fill_vector(bytes, tensor.place(prompt, row.token, head));
           });
}

std::uint64_t RankCache::count_wrong(const Prompt& prompt, TokenRange tokens,
                                     const RequestPages& pages) const {
  std::uint64_t wrong = 0;
  for (const auto& [group_index, tensors] : layers_) {
    const CacheGroup& group = groups_[group_index];
    const TokenRange checked = intersect(kept_tokens(group, prompt), tokens);
    const PageTable& table = pages.by_group[group_index];
    if (tensors.empty() || checked.empty() || table.empty()) continue;
    auto rows = rows_of(group, prompt, entries_of(group, checked));
    std::erase_if(rows, [&](const Row& row) { return !contains(checked, row.token); });
    for_each(rows, tensors, table,
             [&](auto bytes, const Tensor& tensor, std::uint32_t head, const Row& row) {
               wrong += mock_engine::count_wrong(bytes, tensor.place(prompt, row.token, head));
             });
  }
  return wrong;
}

Damage RankCache::check(const Prompt& prompt, const RequestPages& pages,
                        std::optional<ContextSlot> slot, bool arrived) const {
  Damage damage;
  if (arrived) damage.wrong_bytes = count_wrong(prompt, {0, prompt.prefill_tokens()}, pages);
  for (const auto& [group_index, tensors] : layers_) {
    const CacheGroup& group = groups_[group_index];
    const TokenRange kept = kept_tokens(group, prompt);
    auto rows = rows_of(group, prompt, kept_entries(group, prompt));
    std::erase_if(rows, [&](const Row& row) { return contains(kept, row.token); });
    for_each(rows, tensors, pages.by_group[group_index],
             [&](auto bytes, const Tensor&, std::uint32_t, const Row&) {
               damage.canary_bytes += mock_engine::count_not_poison(bytes);
             });
  }
  if (slot && context_) {
    const auto bytes = context(*slot);
    const auto content = bytes.first(context_->slot_bytes);
    if (arrived) damage.wrong_bytes += mock_engine::count_wrong(content, context_place(prompt));
    damage.canary_bytes += mock_engine::count_not_poison(bytes.subspan(content.size()));
  }
  return damage;
}

}  // namespace mock_engine

// What RankCache keeps besides rows of tokens: context slots, and places not to be written.

#include <algorithm>

#include "support/content.h"
#include "support/rank_cache.h"

namespace mock_engine {

using kvrail::ContextSlot;
using kvrail::PageIndex;
using kvrail::RequestPages;

// A slot with the bytes up to the next one.
std::span<std::byte> RankCache::context(ContextSlot slot) const {
  const std::uint64_t begin =
      context_->base_offset_bytes + slot.value() * context_->slot_stride_bytes;
  return memory_.subspan(begin, std::min(context_->slot_stride_bytes, memory_.size() - begin));
}

VectorPlace RankCache::context_place(const Prompt& prompt) const {
  return {layer_seed(model_seed_, layer_count(), 0), prompt.token_key(prompt.prefill_tokens() - 1),
          0};
}

void RankCache::fill_context(const Prompt& prompt, ContextSlot slot) {
  if (context_) fill_vector(context(slot).first(context_->slot_bytes), context_place(prompt));
}

void RankCache::poison_all() { fill_poison(memory_); }

template <class Visit>
void RankCache::for_each_byte_range(const RequestPages& pages, std::optional<ContextSlot> slot,
                                    Visit visit) const {
  for (const auto& [group, tensors] : layers_) {
    for (const Tensor& tensor : tensors) {
      for (const PageIndex page : pages.by_group[group]) {
        if (page == kNoPage) continue;
        for (std::uint32_t head = 0; head < tensor.heads.count; ++head) {
          for (std::uint32_t row = 0; row < groups_[group].page_tokens; ++row) {
            visit(tensor.row(page, row, head));
          }
        }
      }
    }
  }
  if (slot && context_) visit(context(*slot));
}

void RankCache::poison(const RequestPages& pages, std::optional<ContextSlot> slot) {
  for_each_byte_range(pages, slot, fill_poison);
}

std::uint64_t RankCache::count_not_poison(const RequestPages& pages,
                                          std::optional<ContextSlot> slot) const {
  std::uint64_t written = 0;
  for_each_byte_range(pages, slot, [&](std::span<const std::byte> bytes) {
    written += mock_engine::count_not_poison(bytes);
  });
  return written;
}

}  // namespace mock_engine

#include "support/kv_cache.h"

#include <stdexcept>

#include "support/content.h"

namespace mock_engine {

using kvrail::PageIndex;
using kvrail::PageOrder;
using kvrail::TokenRange;

KvCache::KvCache(const kvrail::KvLayout& layout, const RegionMemory& memory) {
  if (layout.groups.size() != 1) {
    throw std::invalid_argument("the mock engine knows models with one cache group only");
  }
  const kvrail::CacheGroup& group = layout.groups.front();
  page_tokens_ = group.page_tokens;
  layers_.resize(layout.layer_count);
  const std::uint64_t model_seed = mix64(layout.model);
  for (const kvrail::RankLayout& rank : layout.ranks) {
    const kvrail::RankGroup& held = rank.groups.at(0);
    for (const kvrail::TensorPlacement& placement : held.placements) {
      const kvrail::TensorLayout& tensor = group.tensors.at(placement.tensor);
      layers_.at(placement.layer.value())
          .push_back(Tensor{
              .base = memory.at(placement.region).data() + placement.base_offset_bytes,
              .page_stride_bytes = placement.page_stride_bytes,
              .seed = layer_seed(model_seed, placement.layer.value(), placement.tensor),
              .heads = held.heads.at(placement.tensor),
              .head_bytes = tensor.head_bytes,
              .order = tensor.order,
          });
    }
  }
}

std::span<std::byte> KvCache::Tensor::vector(PageIndex page, std::uint32_t page_tokens,
                                             std::uint32_t slot, std::uint32_t head) const {
  const std::uint64_t row = order == PageOrder::kHnd ? std::uint64_t{head} * page_tokens + slot
                                                     : std::uint64_t{slot} * heads.count + head;
  return {base + page.value() * page_stride_bytes + row * head_bytes, head_bytes};
}

template <class Visit>
void KvCache::for_each_vector(const Tensor& tensor, const Prompt& prompt, TokenRange tokens,
                              const PageTable& pages, Visit visit) const {
  for (std::uint32_t head = 0; head < tensor.heads.count; ++head) {
    for (std::uint32_t token = tokens.first; token < tokens.end; ++token) {
      visit(tensor.vector(pages[token / page_tokens_], page_tokens_, token % page_tokens_, head),
            VectorPlace{tensor.seed, prompt.token_key(token), tensor.heads.first + head});
    }
  }
}

void KvCache::fill(const Prompt& prompt, TokenRange tokens, const PageTable& pages,
                   std::uint32_t layer) {
  for (const Tensor& tensor : layers_.at(layer)) {
    for_each_vector(tensor, prompt, tokens, pages, fill_vector);
  }
}

std::uint64_t KvCache::count_wrong(const Prompt& prompt, TokenRange tokens,
                                   const PageTable& pages) const {
  std::uint64_t wrong = 0;
  for (const std::vector<Tensor>& layer : layers_) {
    for (const Tensor& tensor : layer) {
      for_each_vector(tensor, prompt, tokens, pages, [&](auto vector, const VectorPlace& place) {
        wrong += mock_engine::count_wrong(vector, place);
      });
    }
  }
  return wrong;
}

void KvCache::poison(PageIndex page) {
  for (const std::vector<Tensor>& layer : layers_) {
    for (const Tensor& tensor : layer) {
      const std::size_t size = std::size_t{page_tokens_} * tensor.heads.count * tensor.head_bytes;
      fill_poison({tensor.vector(page, page_tokens_, 0, 0).data(), size});
    }
  }
}

std::uint64_t KvCache::count_not_poison(PageIndex page, std::uint32_t first_slot) const {
  std::uint64_t written = 0;
  for (const std::vector<Tensor>& layer : layers_) {
    for (const Tensor& tensor : layer) {
      for (std::uint32_t head = 0; head < tensor.heads.count; ++head) {
        for (std::uint32_t slot = first_slot; slot < page_tokens_; ++slot) {
          written += mock_engine::count_not_poison(tensor.vector(page, page_tokens_, slot, head));
        }
      }
    }
  }
  return written;
}

}  // namespace mock_engine

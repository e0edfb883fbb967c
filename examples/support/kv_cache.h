#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"
#include "support/prompt.h"

namespace mock_engine {

using PageTable = std::vector<kvrail::PageIndex>;
// The memory behind each registered region.
using RegionMemory = std::unordered_map<kvrail::RegionId, std::span<std::byte>>;

// The KV memory of one engine, all ranks: stands in for the attention kernels that would write and
// read it. Needs a layout with one cache group.
//
// Threads: any, so long as no two touch the same page of the same layer and one of them writes.
// Ownership: the memory is the caller's and must outlive the cache.
class KvCache {
 public:
  KvCache(const kvrail::KvLayout& layout, const RegionMemory& memory);

  std::uint32_t layer_count() const { return static_cast<std::uint32_t>(layers_.size()); }
  std::uint32_t page_tokens() const { return page_tokens_; }

  // What the forward pass leaves in one layer for these tokens.
  void fill(const Prompt& prompt, kvrail::TokenRange tokens, const PageTable& pages,
            std::uint32_t layer);
  // Bytes of these tokens, over all layers, that are not what fill() writes.
  std::uint64_t count_wrong(const Prompt& prompt, kvrail::TokenRange tokens,
                            const PageTable& pages) const;

  // Marks a page, over all layers, as a place where nothing may be written.
  void poison(kvrail::PageIndex page);
  // Bytes of a page, from its slot `first_slot` on, that were written since.
  std::uint64_t count_not_poison(kvrail::PageIndex page, std::uint32_t first_slot = 0) const;

 private:
  // One tensor of one layer on one rank.
  struct Tensor {
    std::byte* base = nullptr;
    std::uint64_t page_stride_bytes = 0;
    std::uint64_t seed = 0;
    kvrail::HeadRange heads;
    std::uint32_t head_bytes = 0;
    kvrail::PageOrder order = kvrail::PageOrder::kHnd;

    std::span<std::byte> vector(kvrail::PageIndex page, std::uint32_t page_tokens,
                                std::uint32_t slot, std::uint32_t head) const;
  };

  template <class Visit>
  void for_each_vector(const Tensor& tensor, const Prompt& prompt, kvrail::TokenRange tokens,
                       const PageTable& pages, Visit visit) const;

  std::uint32_t page_tokens_;
  std::vector<std::vector<Tensor>> layers_;
};

}  // namespace mock_engine

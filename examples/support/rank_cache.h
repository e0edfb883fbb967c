#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"
#include "support/content.h"
#include "support/group_tokens.h"
#include "support/prompt.h"

namespace mock_engine {

// What was found amiss in KV memory, in bytes.
struct Damage {
  std::uint64_t wrong_bytes = 0;   // of another request, layer, tensor, head or token
  std::uint64_t canary_bytes = 0;  // written where nothing may be written

  Damage& operator+=(const Damage& other) {
    wrong_bytes += other.wrong_bytes;
    canary_bytes += other.canary_bytes;
    return *this;
  }
  bool operator==(const Damage&) const = default;
};

// The KV memory of one rank: stands in for the attention kernels that would write and read it.
//
// Threads: any, so long as no two touch the same page of the same layer and one of them writes.
// Ownership: the memory is the caller's and must outlive the cache.
class RankCache {
 public:
  // `memory` is the one region that the rank's placements and context slots are in.
  RankCache(const kvrail::KvLayout& layout, kvrail::RankIndex rank, std::span<std::byte> memory);

  std::uint32_t layer_count() const { return static_cast<std::uint32_t>(layers_.size()); }

  // What the forward pass leaves in one layer for these tokens: the rank's own heads and tokens,
  // nothing if the layer is on another stage.
  void fill(std::uint32_t layer, const Prompt& prompt, kvrail::TokenRange tokens,
            const kvrail::RequestPages& pages);
  // The hidden state after the prompt's last prefilled token, if this rank has context slots.
  void fill_context(const Prompt& prompt, kvrail::ContextSlot slot);

  // A whole prompt, after its prefill: the rows of its tokens, and all others of its pages, which
  // nothing may have written. Without `arrived` only these others.
  Damage check(const Prompt& prompt, const kvrail::RequestPages& pages,
               std::optional<kvrail::ContextSlot> slot, bool arrived) const;
  // Bytes of these tokens alone that are not what fill() writes.
  std::uint64_t count_wrong(const Prompt& prompt, kvrail::TokenRange tokens,
                            const kvrail::RequestPages& pages) const;

  // Marks pages and slots, or all of the memory, as places where nothing may be written.
  void poison_all();
  void poison(const kvrail::RequestPages& pages, std::optional<kvrail::ContextSlot> slot);
  // Bytes of them that were written since.
  std::uint64_t count_not_poison(const kvrail::RequestPages& pages,
                                 std::optional<kvrail::ContextSlot> slot) const;

 private:
  // One tensor of one layer.
  struct Tensor {
    std::uint64_t seed = 0;
    std::byte* base = nullptr;
    std::uint64_t page_stride = 0;  // bytes
    std::uint64_t head_stride = 0;
    std::uint64_t token_stride = 0;
    kvrail::HeadRange heads;
    std::uint32_t head_bytes = 0;

    std::span<std::byte> row(kvrail::PageIndex page, std::uint32_t slot, std::uint32_t head) const {
      return {base + page.value() * page_stride + slot * token_stride + head * head_stride,
              head_bytes};
    }
    VectorPlace place(const Prompt& prompt, std::uint32_t token, std::uint32_t head) const {
      return {seed, prompt.token_key(token), heads.first + head};
    }
  };
  struct Layer {
    std::size_t group = 0;
    std::vector<Tensor> tensors;
  };
  // A row of a page, and the token whose it is.
  struct Row {
    std::uint32_t entry = 0;
    std::uint32_t slot = 0;
    std::uint32_t token = 0;
  };

  void add_tensors(const kvrail::KvLayout& layout, std::size_t group);
  std::vector<Row> rows_of(const kvrail::CacheGroup& group, const Prompt& prompt,
                           kvrail::TokenRange entries) const;
  std::span<std::byte> context(kvrail::ContextSlot slot) const;
  VectorPlace context_place(const Prompt& prompt) const;
  template <class Visit>
  static void for_each(const std::vector<Row>& rows, const std::vector<Tensor>& tensors,
                       const PageTable& table, Visit visit);
  template <class Visit>
  void for_each_byte_range(const kvrail::RequestPages& pages,
                           std::optional<kvrail::ContextSlot> slot, Visit visit) const;

  std::uint64_t model_seed_;
  std::vector<kvrail::CacheGroup> groups_;
  kvrail::RankLayout rank_;
  std::optional<kvrail::ContextLayout> context_;
  std::span<std::byte> memory_;
  std::vector<Layer> layers_;
};

}  // namespace mock_engine

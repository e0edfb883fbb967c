#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvrail/ids.h"
#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

// The KV memory of a node of one rank and one cache group, each byte of which is known at any time:
// tokens of a prompt hold what its seed gives, everything else in a page or slot is as free_page()
// and free_slot() leave it, and margins around all are never touched.
//
// The functions that look return the first fault as text, or nothing.
//
// Threads: one, beside the writes of peers.
class CacheImage {
 public:
  explicit CacheImage(std::uint64_t region_bytes);

  std::byte* region() { return memory_.data() + kMargin; }
  std::uint64_t region_bytes() const { return memory_.size() - 2 * kMargin; }

  // Where the pages and slots are; all are free then.
  void use(const KvLayout& layout);

  void compute(std::uint64_t seed, std::span<const PageIndex> pages, LayerIndex layer,
               TokenRange tokens);
  void compute_all_layers(std::uint64_t seed, std::span<const PageIndex> pages, TokenRange tokens);
  void compute_context(std::uint64_t seed, ContextSlot slot);

  // Whether these pages hold tokens [0, end), and nothing behind them.
  std::string find_fault(std::uint64_t seed, std::span<const PageIndex> pages,
                         std::uint32_t end) const;
  std::string find_context_fault(std::uint64_t seed, ContextSlot slot) const;

  void free_page(PageIndex page);
  void free_slot(ContextSlot slot);
  std::string find_fault_in_free(PageIndex page) const;
  std::string find_fault_in_free(ContextSlot slot) const;
  std::string find_fault_in_margins() const;

 private:
  static constexpr std::size_t kMargin = 4096;

  struct Row {
    std::uint32_t layer;
    std::uint32_t tensor;
    std::uint32_t head;
    std::uint32_t slot;  // of the token in its page
    std::uint64_t offset_bytes;
  };
  template <class Visit>
  void for_rows(PageIndex page, Visit visit) const;
  std::uint64_t slot_offset(ContextSlot slot) const;
  std::string compare(std::uint64_t offset_bytes, std::uint64_t size_bytes, std::uint64_t stream,
                      const char* what) const;
  void fill(std::uint64_t offset_bytes, std::uint64_t size_bytes, std::uint64_t stream);

  std::vector<std::byte> memory_;
  KvLayout layout_;
};

}  // namespace kvrail

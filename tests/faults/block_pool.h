#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "faults/cache_image.h"
#include "faults/violation.h"

namespace kvrail {

// Pages, or context slots, of a cache image. Last in, first out: a page is used again the moment it
// is given back. What is free is looked at before it is taken, so that a write into it is found.
template <class Index>
class BlockPool {
 public:
  // Blocks from `first` on.
  BlockPool(CacheImage& image, std::uint32_t first, std::uint32_t count)
      : image_(image), count_(count) {
    for (std::uint32_t i = count; i > 0; --i) free_.push_back(Index(first + i - 1));
  }

  std::size_t free() const { return free_.size(); }
  bool full() const { return free_.size() == count_; }

  // None if there are not that many. Throws Violation.
  std::optional<std::vector<Index>> take(std::uint32_t count) {
    if (free_.size() < count) return std::nullopt;
    std::vector<Index> taken;
    for (; count > 0; --count) {
      demand_none(image_.find_fault_in_free(free_.back()));
      taken.push_back(free_.back());
      free_.pop_back();
    }
    return taken;
  }

  void give(Index block) {
    clear(block);
    free_.push_back(block);
  }

  // Throws Violation if something was written into a free block.
  void sweep() const {
    for (const Index block : free_) demand_none(image_.find_fault_in_free(block));
  }

 private:
  void clear(PageIndex page) { image_.free_page(page); }
  void clear(ContextSlot slot) { image_.free_slot(slot); }

  CacheImage& image_;
  const std::size_t count_;
  std::vector<Index> free_;
};

}  // namespace kvrail

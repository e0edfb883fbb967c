#include "support/page_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace mock_engine {

using kvrail::PageIndex;

PagePool::PagePool(std::uint32_t page_count) : slots_(page_count) {
  for (std::uint32_t page = page_count; page > 0; --page) free_.push_back(page - 1);
}

std::optional<std::vector<PageIndex>> PagePool::allocate(std::uint32_t count) {
  if (count > available()) return std::nullopt;
  std::vector<PageIndex> pages;
  pages.reserve(count);
  while (pages.size() < count) {
    std::uint32_t page = 0;
    if (!free_.empty()) {
      page = free_.back();
      free_.pop_back();
    } else {
      page = idle_.front();
      idle_.pop_front();
      by_key_.erase(*slots_[page].key);
      slots_[page].key.reset();
    }
    slots_[page].users = 1;
    pages.emplace_back(page);
  }
  return pages;
}

bool PagePool::take_free(PageIndex page) {
  const auto found = std::find(free_.begin(), free_.end(), page.value());
  if (found == free_.end()) return false;
  free_.erase(found);
  slots_[page.value()].users = 1;
  return true;
}

std::optional<PageIndex> PagePool::find(std::uint64_t key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  Slot& slot = slots_[found->second];
  if (slot.users++ == 0) idle_.erase(slot.idle);
  return PageIndex(found->second);
}

bool PagePool::publish(PageIndex page, std::uint64_t key) {
  Slot& slot = slots_.at(page.value());
  if (slot.users == 0) throw std::logic_error(fmt::format("page {} has no user", page.value()));
  if (slot.key || !by_key_.try_emplace(key, page.value()).second) return false;
  slot.key = key;
  return true;
}

void PagePool::release(std::span<const PageIndex> pages) {
  for (const PageIndex page : pages) {
    Slot& slot = slots_.at(page.value());
    if (slot.users == 0) throw std::logic_error(fmt::format("page {} is free", page.value()));
    if (--slot.users > 0) continue;
    if (slot.key) {
      slot.idle = idle_.insert(idle_.end(), page.value());
    } else {
      free_.push_back(page.value());
    }
  }
}

bool PagePool::is_free(PageIndex page) const {
  const Slot& slot = slots_.at(page.value());
  return slot.users == 0 && !slot.key;
}

}  // namespace mock_engine

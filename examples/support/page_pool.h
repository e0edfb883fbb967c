#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kvrail/ids.h"

namespace mock_engine {

// Hands out the pages of one pool, with a prefix cache: a page that was published under a key stays
// findable after its last user has released it, until its place is needed.
//
// Invariant: a page is in exactly one of these states: free, idle (published, no user) or used (one
// or more users). free + idle = available().
// Not thread-safe; the owner guards it.
class PagePool {
 public:
  explicit PagePool(std::uint32_t page_count);

  // `count` pages with one user each, or none at all when fewer are available. Idle pages are taken
  // last, those unused for longest first, and lose their key.
  std::optional<std::vector<kvrail::PageIndex>> allocate(std::uint32_t count);

  // That page, with one user, if it is free.
  bool take_free(kvrail::PageIndex page);

  // The page published under `key`, with one more user.
  std::optional<kvrail::PageIndex> find(std::uint64_t key);

  // Makes a used page findable. False, changing nothing, if another page has this key already or
  // the page has one.
  bool publish(kvrail::PageIndex page, std::uint64_t key);

  // Each page loses one user.
  void release(std::span<const kvrail::PageIndex> pages);

  std::uint32_t page_count() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint32_t available() const {
    return static_cast<std::uint32_t>(free_.size() + idle_.size());
  }
  // Neither used nor published: nobody's content is in it.
  bool is_free(kvrail::PageIndex page) const;

 private:
  struct Slot {
    std::uint32_t users = 0;
    std::optional<std::uint64_t> key;
    std::list<std::uint32_t>::iterator idle;  // valid while users == 0 and key is set
  };

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::list<std::uint32_t> idle_;  // front: unused for longest
  std::unordered_map<std::uint64_t, std::uint32_t> by_key_;
};

}  // namespace mock_engine

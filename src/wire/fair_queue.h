#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <utility>

namespace kvrail {

// Items that wait, a line for each source. Sources are served in turn, and the items of one in
// their order, so who has many in line delays others by one at a time. Remembers no source that has
// nothing in line.
//
// Threads: one.
template <class Source, class Item>
class FairQueue {
 public:
  explicit FairQueue(std::size_t max_items) : max_items_(max_items) {}

  bool empty() const { return turns_.empty(); }
  std::size_t size() const { return size_; }
  std::size_t source_count() const { return turns_.size(); }

  // Returns what has no room, if there are more than max_items: the last one of the source that has
  // most in line; of several such, the new one's is chosen.
  std::optional<Item> push(const Source& source, Item item) {
    const auto found = lines_.find(source);
    const auto line = found != lines_.end() ? found->second : add_line(source);
    line->items.push_back(std::move(item));
    ++size_;
    if (size_ <= max_items_) return std::nullopt;
    auto longest = line;
    for (auto other = turns_.begin(); other != turns_.end(); ++other) {
      if (other->items.size() > longest->items.size()) longest = other;
    }
    Item last = std::move(longest->items.back());
    longest->items.pop_back();
    --size_;
    if (longest->items.empty()) remove_line(longest);
    return last;
  }

  // The next one. Must not be empty.
  Item pop() {
    const auto line = turns_.begin();
    Item item = std::move(line->items.front());
    line->items.pop_front();
    --size_;
    if (line->items.empty()) {
      remove_line(line);
    } else {
      turns_.splice(turns_.end(), turns_, line);
    }
    return item;
  }

  // for_each() and remove_if() see the items in the same order.
  template <class Visit>
  void for_each(Visit visit) {
    for (Line& line : turns_) {
      for (Item& item : line.items) visit(item);
    }
  }
  template <class Predicate>
  void remove_if(Predicate predicate) {
    size_ = 0;
    for (auto line = turns_.begin(); line != turns_.end();) {
      const auto next = std::next(line);
      auto& items = line->items;
      items.erase(std::remove_if(items.begin(), items.end(), predicate), items.end());
      size_ += items.size();
      if (items.empty()) remove_line(line);
      line = next;
    }
  }
  void clear() {
    lines_.clear();
    turns_.clear();
    size_ = 0;
  }

 private:
  struct Line {
    Source source;
    std::deque<Item> items;  // never empty between calls
  };
  using Lines = std::list<Line>;

  typename Lines::iterator add_line(const Source& source) {
    const auto line = turns_.insert(turns_.end(), Line{source, {}});
    lines_.emplace(source, line);
    return line;
  }
  void remove_line(typename Lines::iterator line) {
    lines_.erase(line->source);
    turns_.erase(line);
  }

  const std::size_t max_items_;
  std::size_t size_ = 0;
  Lines turns_;  // whose turn is next comes first
  std::map<Source, typename Lines::iterator> lines_;
};

}  // namespace kvrail

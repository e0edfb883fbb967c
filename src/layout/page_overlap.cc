#include "layout/page_overlap.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <queue>
#include <vector>

namespace kvrail {
namespace {

// A sweep over the regions by address. Series whose extents overlap repeat with the same stride, so
// they share a byte exactly if their first pages do modulo the stride. Those that are open at an
// address are kept by base modulo stride; they do not overlap each other, so a new one needs to be
// compared with its two neighbours on the circle only.
class Sweep {
 public:
  Sweep(std::span<const PageSeries> series, std::uint32_t page_count)
      : series_(series), page_count_(page_count) {}

  // The index of an open series that shares a byte with this one. Calls in order of addresses.
  std::optional<std::size_t> add(std::size_t index) {
    const PageSeries& added = series_[index];
    close_until(added);
    if (!open_.empty()) {
      const std::size_t any = open_.begin()->second;
      if (page_count_ == 1 || series_[any].stride_bytes != added.stride_bytes) {
        return any;
      }
      if (const auto found = neighbour_that_overlaps(added)) {
        return found;
      }
    }
    open_.emplace(added.base_bytes % added.stride_bytes, index);
    ends_.emplace(added.end_bytes, index);
    region_ = added.region;
    return std::nullopt;
  }

 private:
  void close_until(const PageSeries& next) {
    while (!ends_.empty() && (region_ != next.region || ends_.top().first <= next.base_bytes)) {
      const PageSeries& ended = series_[ends_.top().second];
      open_.erase(ended.base_bytes % ended.stride_bytes);
      ends_.pop();
    }
  }

  std::optional<std::size_t> neighbour_that_overlaps(const PageSeries& added) const {
    const std::uint64_t stride = added.stride_bytes;
    const std::uint64_t residue = added.base_bytes % stride;
    // Distance upwards on the circle of length `stride`.
    const auto distance = [stride](std::uint64_t from, std::uint64_t to) {
      return to >= from ? to - from : to + (stride - from);
    };
    const auto at_or_above = open_.lower_bound(residue);
    const auto next = at_or_above == open_.end() ? open_.begin() : at_or_above;
    if (distance(residue, next->first) < added.page_bytes) {
      return next->second;
    }
    const auto previous = std::prev(at_or_above == open_.begin() ? open_.end() : at_or_above);
    if (distance(previous->first, residue) < series_[previous->second].page_bytes) {
      return previous->second;
    }
    return std::nullopt;
  }

  using End = std::pair<std::uint64_t, std::size_t>;

  std::span<const PageSeries> series_;
  std::uint32_t page_count_;
  RegionId region_;
  std::map<std::uint64_t, std::size_t> open_;  // base modulo stride -> index
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> find_overlap(std::span<const PageSeries> series,
                                                                std::uint32_t page_count) {
  std::vector<std::size_t> order(series.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(series[a].region, series[a].base_bytes) <
           std::pair(series[b].region, series[b].base_bytes);
  });
  Sweep sweep(series, page_count);
  for (const std::size_t index : order) {
    if (const auto other = sweep.add(index)) {
      return std::pair(*other, index);
    }
  }
  return std::nullopt;
}

}  // namespace kvrail

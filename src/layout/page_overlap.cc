#include "layout/page_overlap.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

namespace kvrail {
namespace {

using Overlap = std::pair<std::size_t, std::size_t>;

// Pages that belong together: those of one series, or of several whose rows interleave.
struct Pages {
  RegionId region;
  std::uint64_t base_bytes = 0;
  std::uint64_t stride_bytes = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t end_bytes = 0;
  std::size_t series = 0;  // the first
};

// A sweep over the regions by address. Those that are open at an address have the same stride and
// are kept by base modulo stride; they do not meet, so new ones need to be compared with their two
// neighbours on the circle only.
class Sweep {
 public:
  // Open pages that may share a byte with these. Calls in order of addresses.
  std::optional<std::size_t> add(const Pages& added) {
    close_until(added);
    if (!open_.empty()) {
      const Pages& any = open_.begin()->second;
      if (any.stride_bytes != added.stride_bytes) return any.series;
      if (const auto found = neighbour_that_overlaps(added)) return found;
    }
    const std::uint64_t residue = added.base_bytes % added.stride_bytes;
    open_.emplace(residue, added);
    ends_.emplace(added.end_bytes, residue);
    region_ = added.region;
    return std::nullopt;
  }

 private:
  void close_until(const Pages& next) {
    while (!ends_.empty() && (region_ != next.region || ends_.top().first <= next.base_bytes)) {
      open_.erase(ends_.top().second);
      ends_.pop();
    }
  }

  std::optional<std::size_t> neighbour_that_overlaps(const Pages& added) const {
    const std::uint64_t stride = added.stride_bytes;
    const std::uint64_t residue = added.base_bytes % stride;
    // Distance upwards on the circle of length `stride`.
    const auto distance = [stride](std::uint64_t from, std::uint64_t to) {
      return to >= from ? to - from : to + (stride - from);
    };
    const auto at_or_above = open_.lower_bound(residue);
    const auto next = at_or_above == open_.end() ? open_.begin() : at_or_above;
    if (distance(residue, next->first) < added.page_bytes) return next->second.series;
    const auto previous = std::prev(at_or_above == open_.begin() ? open_.end() : at_or_above);
    if (distance(previous->first, residue) < previous->second.page_bytes) {
      return previous->second.series;
    }
    return std::nullopt;
  }

  using End = std::pair<std::uint64_t, std::uint64_t>;  // of the pages; their residue

  RegionId region_;
  std::map<std::uint64_t, Pages> open_;  // by base modulo stride
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

bool has_gaps(const RowSeries& series) { return series.pitch_bytes != series.stride_bytes; }

// Joins series whose rows interleave: they begin within one pitch of the first. `gapped` is sorted
// by region, stride, pitch and base.
std::optional<Overlap> join(std::span<const RowSeries> series,
                            const std::vector<std::size_t>& gapped, std::vector<Pages>& pages) {
  for (auto first = gapped.begin(); first != gapped.end();) {
    const RowSeries& begin = series[*first];
    Pages joined{begin.region,     begin.base_bytes, begin.stride_bytes,
                 begin.page_bytes, begin.end_bytes,  *first};
    std::uint64_t row_end = begin.base_bytes + begin.row_bytes;
    std::size_t last = *first;
    auto next = std::next(first);
    for (; next != gapped.end(); ++next) {
      const RowSeries& other = series[*next];
      const bool joins = other.region == begin.region && other.stride_bytes == begin.stride_bytes &&
                         other.pitch_bytes == begin.pitch_bytes &&
                         other.base_bytes - begin.base_bytes < begin.pitch_bytes;
      if (!joins) break;
      if (other.base_bytes < row_end) return Overlap(last, *next);
      row_end = other.base_bytes + other.row_bytes;
      last = *next;
      joined.page_bytes =
          std::max(joined.page_bytes, other.base_bytes - begin.base_bytes + other.page_bytes);
      joined.end_bytes = std::max(joined.end_bytes, other.end_bytes);
    }
    const bool meets_itself =
        row_end - begin.base_bytes > begin.pitch_bytes || joined.page_bytes > joined.stride_bytes;
    if (last != *first && meets_itself) return Overlap(*first, last);
    pages.push_back(joined);
    first = next;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Overlap> find_overlap(std::span<const RowSeries> series) {
  std::vector<Pages> pages;
  std::vector<std::size_t> gapped;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const RowSeries& s = series[i];
    if (has_gaps(s)) {
      gapped.push_back(i);
    } else {
      pages.push_back({s.region, s.base_bytes, s.stride_bytes, s.page_bytes, s.end_bytes, i});
    }
  }
  std::sort(gapped.begin(), gapped.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [&](const RowSeries& s) {
      return std::tie(s.region, s.stride_bytes, s.pitch_bytes, s.base_bytes);
    };
    return key(series[a]) < key(series[b]);
  });
  if (const auto overlap = join(series, gapped, pages)) return overlap;
  std::sort(pages.begin(), pages.end(), [](const Pages& a, const Pages& b) {
    return std::tie(a.region, a.base_bytes) < std::tie(b.region, b.base_bytes);
  });
  Sweep sweep;
  for (const Pages& each : pages) {
    if (const auto other = sweep.add(each)) return Overlap(*other, each.series);
  }
  return std::nullopt;
}

}  // namespace kvrail

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvrail/write_list.h"

namespace kvrail {

// Ranges per write that are ever used on either side, whatever the provider allows.
inline constexpr std::size_t kMaxSegments = 4;

// What one write may hold.
struct WriteLimits {
  std::uint64_t merge_bytes = kMaxUnitBytes;  // ranges are merged up to this size
  std::uint64_t max_bytes = kMaxUnitBytes;    // at least kMaxUnitBytes; the provider's limit
  std::uint32_t max_sources = 1;              // 1 to kMaxSegments
  std::uint32_t max_targets = 1;              // 1 to kMaxSegments
  // Ranges that lie apart are not put together beyond this size, unless the first alone is larger:
  // the provider sends so much in its own queue, several times as fast as it has the target read
  // the source.
  std::uint64_t inline_bytes = 0;
};

struct Segment {
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};

// One write: the sources, in order, fill the targets, in order; the immediate carries `units`.
struct BuiltWrite {
  std::array<Segment, kMaxSegments> sources;
  std::array<Segment, kMaxSegments> targets;
  std::uint32_t source_count = 0;
  std::uint32_t target_count = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t units = 0;
  std::uint32_t ranges = 0;  // ranges of runs that end in this write
};

// How far a list of runs has been turned into writes. Copying it is cheap: a write that could not
// be posted is built again from the copy.
struct RunCursor {
  std::size_t next_run = 0;
  std::uint32_t ranges_done = 0;  // of runs[next_run]; fewer than it has
  std::uint32_t units_done = 0;   // of its next range
  std::uint64_t bytes_done = 0;   // of its next range
};

// Builds the next write and moves the cursor; false at the end. Pure.
//
// Ranges that follow each other, of one run or of neighbours, are put into one write as long as the
// limits allow; where they are contiguous on a side they share a segment. A range that is too large
// for one write is split, and every piece carries at least one unit: runs hold check_runs(). How
// ranges are put together into runs makes no difference to the writes.
bool build_next_write(std::span<const WriteRun> runs, const WriteLimits& limits, RunCursor& cursor,
                      BuiltWrite& write);

// Whether every run has ranges, all of them lie inside both regions and apart in the target, and
// their units fit their size: at least ceil(size / kMaxUnitBytes), at most one per byte.
Status check_runs(std::span<const WriteRun> runs, std::uint64_t source_bytes,
                  std::uint64_t target_bytes);

}  // namespace kvrail

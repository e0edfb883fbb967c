#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/ids.h"

namespace kvrail {

// `count` contiguous ranges to copy, equal in size and evenly spaced: range i is `size_bytes` from
// source_offset + i * source_stride_bytes of the source region to target_offset + i *
// target_stride_bytes of the target region, in bytes from the regions' starts. The same as a run
// for each range, in order, but it takes no more memory than one.
struct WriteRun {
  std::uint64_t source_offset = 0;
  std::uint64_t target_offset = 0;
  std::uint64_t size_bytes = 0;  // of each range; at least 1
  // What the target's counter grows by when all of one range has landed; at least 1, at least one
  // per kMaxUnitBytes so that a long range can be split with every piece counted, and at most one
  // per byte.
  std::uint32_t units = 1;
  std::uint32_t count = 1;  // ranges; at least 1
  // Ignored if there is one range. The target's is at least size_bytes: ranges of a run do not
  // overlap there. The source's may be anything; 0 takes the same bytes again.
  std::uint64_t source_stride_bytes = 0;
  std::uint64_t target_stride_bytes = 0;
};

// A range of more bytes than this must carry more than one unit: ceil(size / kMaxUnitBytes). Every
// provider served can write this much in one operation (verbs over Soft-RoCE: 8 MiB, the smallest
// known).
inline constexpr std::uint64_t kMaxUnitBytes = std::uint64_t{1} << 20;

// One submission: runs from one local region into one remote region, counted on one counter of the
// target. Merging, gathering and splitting are the library's; the units add up.
struct WriteList {
  RegionId source;
  RemoteRegionId target;
  CounterId counter;
  std::vector<WriteRun> runs;
  // Once a stop is requested, nothing more of it is posted: it completes as kCancelled when what
  // was posted before is done.
  std::stop_token stop = {};
};

// What became of a submission. Times are CLOCK_MONOTONIC nanoseconds, as the worker read them once
// in a turn; 0 means never. Of a submission that was made in a callback submitted_ns is when the
// worker saw what it called back for.
struct WriteReport {
  std::int64_t submitted_ns = 0;
  std::int64_t first_post_ns = 0;
  std::int64_t last_completion_ns = 0;
  std::uint64_t bytes_posted = 0;
  std::uint64_t writes_posted = 0;
  std::uint64_t units_posted = 0;
};

// Called exactly once per accepted submission, when every write of it on every link is done or has
// failed: no rail reads the source any more. Runs on the device group's worker: it must not block,
// and may submit more with FullQueue::kRefuse.
using WriteCallback = std::function<void(const Status& status, const WriteReport& report)>;

// What `submit` does when the submission queue is full.
enum class FullQueue { kBlock, kRefuse };

}  // namespace kvrail

#include "fabric/write_builder.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "fabric/immediate.h"

namespace kvrail {
namespace {

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// A piece of a range: the rest of it, or what one write can take.
struct Piece {
  std::uint64_t source = 0;
  std::uint64_t target = 0;
  std::uint64_t size = 0;
  std::uint32_t units = 0;
};

Piece rest_of(const WriteRun& run, const RunCursor& cursor) {
  const std::uint64_t source = run.source_offset + cursor.ranges_done * run.source_stride_bytes;
  const std::uint64_t target = run.target_offset + cursor.ranges_done * run.target_stride_bytes;
  return {source + cursor.bytes_done, target + cursor.bytes_done,
          run.size_bytes - cursor.bytes_done, run.units - cursor.units_done};
}

// Moves past the range that the cursor is in.
void finish_range(const WriteRun& run, RunCursor& cursor) {
  cursor.bytes_done = 0;
  cursor.units_done = 0;
  if (++cursor.ranges_done < run.count) return;
  cursor.ranges_done = 0;
  ++cursor.next_run;
}

// Whether the last segment of a side ends where the piece begins.
bool continues(const std::array<Segment, kMaxSegments>& segments, std::uint32_t count,
               std::uint64_t offset) {
  return count > 0 && segments[count - 1].offset + segments[count - 1].size_bytes == offset;
}

bool fits(const BuiltWrite& write, const WriteLimits& limits, const Piece& piece) {
  const bool same_source = continues(write.sources, write.source_count, piece.source);
  const bool same_target = continues(write.targets, write.target_count, piece.target);
  const std::uint64_t size = write.size_bytes + piece.size;
  if (!(same_source && same_target) && size > limits.inline_bytes &&
      write.size_bytes <= limits.inline_bytes && write.size_bytes > 0) {
    return false;
  }
  return size <= limits.merge_bytes && piece.units <= kMaxUnitsPerWrite - write.units &&
         (same_source || write.source_count < limits.max_sources) &&
         (same_target || write.target_count < limits.max_targets);
}

void extend(std::array<Segment, kMaxSegments>& segments, std::uint32_t& count, std::uint64_t offset,
            std::uint64_t size) {
  if (continues(segments, count, offset)) {
    segments[count - 1].size_bytes += size;
  } else {
    segments[count++] = {offset, size};
  }
}

void append(BuiltWrite& write, const Piece& piece) {
  extend(write.sources, write.source_count, piece.source, piece.size);
  extend(write.targets, write.target_count, piece.target, piece.size);
  write.size_bytes += piece.size;
  write.units += piece.units;
}

// The first piece of a rest that is too large for one write. The rest is cut into as many even
// pieces as its size asks for, but not more than it has units. With u units for L bytes,
// u >= L / kMaxUnitBytes and u <= L hold for the piece's remainder again.
Piece first_piece(Piece rest, const WriteLimits& limits) {
  const std::uint64_t wanted =
      std::max(divide_up(rest.size, limits.merge_bytes), divide_up(rest.units, kMaxUnitsPerWrite));
  const std::uint64_t pieces = std::min<std::uint64_t>(wanted, rest.units);
  if (pieces <= 1) return rest;
  const auto units = static_cast<std::uint32_t>(rest.units / pieces);
  const std::uint64_t size =
      std::min(divide_up(rest.size, pieces), rest.size - (rest.units - units));
  return {rest.source, rest.target, size, units};
}

std::string text_of(const WriteRun& run) {
  if (run.count == 1) {
    return fmt::format("{} bytes from source offset {} to target offset {}", run.size_bytes,
                       run.source_offset, run.target_offset);
  }
  return fmt::format(
      "{} ranges of {} bytes from source offset {}, {} bytes apart, to target offset {}, {} bytes "
      "apart,",
      run.count, run.size_bytes, run.source_offset, run.source_stride_bytes, run.target_offset,
      run.target_stride_bytes);
}

// Whether all ranges of one side of a run lie in a region of `region_bytes`.
bool lies_inside(std::uint64_t offset, std::uint64_t stride, const WriteRun& run,
                 std::uint64_t region_bytes) {
  if (run.size_bytes > region_bytes || offset > region_bytes - run.size_bytes) return false;
  const std::uint64_t room = region_bytes - run.size_bytes - offset;
  return run.count == 1 || stride <= room / (run.count - 1);
}

}  // namespace

bool build_next_write(std::span<const WriteRun> runs, const WriteLimits& limits, RunCursor& cursor,
                      BuiltWrite& write) {
  write.source_count = write.target_count = write.units = write.ranges = 0;
  write.size_bytes = 0;
  RunCursor at = cursor;  // a local one stays in registers
  for (; at.next_run < runs.size(); finish_range(runs[at.next_run], at)) {
    const Piece rest = rest_of(runs[at.next_run], at);
    if (!fits(write, limits, rest)) break;
    append(write, rest);
    ++write.ranges;
  }
  if (write.units == 0 && at.next_run < runs.size()) {
    const WriteRun& run = runs[at.next_run];
    const Piece rest = rest_of(run, at);
    const Piece piece = first_piece(rest, limits);
    append(write, piece);
    if (piece.size == rest.size) {
      ++write.ranges;
      finish_range(run, at);
    } else {
      at.bytes_done += piece.size;
      at.units_done += piece.units;
    }
  }
  cursor = at;
  return write.units > 0;
}

Status check_runs(std::span<const WriteRun> runs, std::uint64_t source_bytes,
                  std::uint64_t target_bytes) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const WriteRun& run = runs[i];
    if (run.size_bytes == 0 || run.count == 0) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("run {}: {} ranges of {} bytes; a run has one range or more, of one byte "
                          "or more",
                          i, run.count, run.size_bytes)};
    }
    if (!lies_inside(run.source_offset, run.source_stride_bytes, run, source_bytes) ||
        !lies_inside(run.target_offset, run.target_stride_bytes, run, target_bytes)) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("run {}: {} do not lie inside the source region of {} bytes and the "
                          "target region of {} bytes",
                          i, text_of(run), source_bytes, target_bytes)};
    }
    if (run.count > 1 && run.target_stride_bytes < run.size_bytes) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("run {}: {} overlap in the target; the target's stride is at least the "
                          "size of a range",
                          i, text_of(run))};
    }
    if (run.units < divide_up(run.size_bytes, kMaxUnitBytes) || run.units > run.size_bytes) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("run {}: {} units for {} bytes; a range carries one unit or more per {} "
                          "bytes and at most one per byte",
                          i, run.units, run.size_bytes, kMaxUnitBytes)};
    }
  }
  return {};
}

}  // namespace kvrail

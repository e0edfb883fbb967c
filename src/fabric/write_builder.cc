#include "fabric/write_builder.h"

#include <algorithm>

#include <fmt/format.h>

#include "fabric/immediate.h"

namespace kvrail {
namespace {

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// A piece of a run: the rest of it, or what one write can take.
struct Piece {
  std::uint64_t source = 0;
  std::uint64_t target = 0;
  std::uint64_t size = 0;
  std::uint32_t units = 0;
};

Piece rest_of(const WriteRun& run, const RunCursor& cursor) {
  return {run.source_offset + cursor.bytes_done, run.target_offset + cursor.bytes_done,
          run.size_bytes - cursor.bytes_done, run.units - cursor.units_done};
}

// Whether the last segment of a side ends where the piece begins.
bool continues(const std::array<Segment, kMaxSegments>& segments, std::uint32_t count,
               std::uint64_t offset) {
  return count > 0 && segments[count - 1].offset + segments[count - 1].size_bytes == offset;
}

bool fits(const BuiltWrite& write, const WriteLimits& limits, const Piece& piece) {
  const bool same_source = continues(write.sources, write.source_count, piece.source);
  const bool same_target = continues(write.targets, write.target_count, piece.target);
  return write.size_bytes + piece.size <= limits.merge_bytes &&
         write.units + piece.units <= kMaxUnitsPerWrite &&
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

}  // namespace

bool build_next_write(std::span<const WriteRun> runs, const WriteLimits& limits, RunCursor& cursor,
                      BuiltWrite& write) {
  write.source_count = write.target_count = write.units = write.runs = 0;
  write.size_bytes = 0;
  while (cursor.next_run < runs.size()) {
    const WriteRun& run = runs[cursor.next_run];
    const Piece rest = rest_of(run, cursor);
    if (fits(write, limits, rest)) {
      append(write, rest);
      ++write.runs;
      cursor = {cursor.next_run + 1, 0, 0};
      continue;
    }
    if (write.units > 0) return true;
    const Piece piece = first_piece(rest, limits);
    append(write, piece);
    if (piece.size == rest.size) {
      ++write.runs;
      cursor = {cursor.next_run + 1, 0, 0};
    } else {
      cursor.bytes_done += piece.size;
      cursor.units_done += piece.units;
    }
    return true;
  }
  return write.units > 0;
}

Status check_runs(std::span<const WriteRun> runs, std::uint64_t source_bytes,
                  std::uint64_t target_bytes) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const WriteRun& run = runs[i];
    if (run.size_bytes == 0 || run.size_bytes > source_bytes || run.size_bytes > target_bytes ||
        run.source_offset > source_bytes - run.size_bytes ||
        run.target_offset > target_bytes - run.size_bytes) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("run {}: {} bytes from source offset {} to target offset {} do not lie "
                          "inside the source region of {} bytes and the target region of {} bytes",
                          i, run.size_bytes, run.source_offset, run.target_offset, source_bytes,
                          target_bytes)};
    }
    if (run.units < divide_up(run.size_bytes, kMaxUnitBytes) || run.units > run.size_bytes) {
      return {ErrorCode::kInvalidArgument,
              fmt::format("run {}: {} units for {} bytes; a run carries one unit or more per {} "
                          "bytes and at most one per byte",
                          i, run.units, run.size_bytes, kMaxUnitBytes)};
    }
  }
  return {};
}

}  // namespace kvrail

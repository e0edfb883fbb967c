#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "kvrail/transfer_plan.h"

namespace kvrail {

// The runs of a request's chunks, each computed once per cache group: all layers of a chunk have
// the same. Two per group are kept, since layers of two chunks may be under way at a time.
//
// Threads: one at a time (the sender's lock).
class ChunkRuns {
 public:
  explicit ChunkRuns(std::size_t group_count) : groups_(group_count) {}

  // Valid until the next call.
  const std::vector<PlannedRun>& runs(const TransferPlan& plan, CacheGroupIndex group,
                                      TokenRange sent, TokenRange finished,
                                      const SourceChoice& sources, const RequestPages& source,
                                      const RequestPages& target) {
    Group& cached = groups_[group.value()];
    for (const Chunk& chunk : cached.chunks) {
      if (chunk.finished == finished) return chunk.runs;
    }
    Chunk& chunk = cached.chunks[cached.next];
    cached.next = (cached.next + 1) % cached.chunks.size();
    chunk.finished = finished;
    chunk.runs.clear();
    plan.append_runs(group, sent, finished, sources, source, target, chunk.runs);
    return chunk.runs;
  }

 private:
  struct Chunk {
    TokenRange finished;  // empty: unused
    std::vector<PlannedRun> runs;
  };
  struct Group {
    std::array<Chunk, 2> chunks;
    std::size_t next = 0;
  };
  std::vector<Group> groups_;
};

}  // namespace kvrail

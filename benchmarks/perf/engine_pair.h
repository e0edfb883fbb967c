#pragma once

#include <cstdint>
#include <vector>

#include "kvrail/transfer_engine.h"
#include "perf/kvrail_flow.h"
#include "perf/page_plan.h"
#include "perf/pattern_memory.h"
#include "perf/results.h"

namespace kvrail::perf {

// A source and a target engine of this process over the scripted provider, introduced to each other
// once or many times: each introduction is a peer, with links, credit and counters of its own. All
// peers of the source are served by the one worker of the target.
//
// Threads: one, beside the engines' workers.
class EnginePair {
 public:
  struct Settings {
    std::uint32_t rails = 1;  // NICs of either side, none of them of both
    std::uint32_t peers = 1;
    std::uint32_t depth = 0;           // submissions outstanding, to all peers together
    bool moves_bytes = true;           // the provider does; else nothing is compared
    std::vector<unsigned> cores = {};  // of both workers; none: any
  };

  // The plan and the memory outlive the pair; `source` is filled. Throws Error.
  EnginePair(const Settings& settings, const PagePlan& plan, const PatternMemory& source,
             PatternMemory& target);

  // So many times all pages, list after list to the next peer, until all have arrived. The target's
  // memory is cleared before and compared afterwards, neither of which is timed. Throws Error.
  Round round(std::uint64_t passes);

 private:
  void add_peer(std::uint32_t number);
  // Of a round, by peer.
  std::vector<std::uint64_t> units_by_peer(std::uint64_t passes) const;

  const Settings settings_;
  const PagePlan& plan_;
  const RunLists runs_;
  PatternMemory& target_memory_;
  TransferEngine source_;
  TransferEngine target_;
  MemoryRegion from_;
  MemoryRegion to_;
  std::vector<Route> routes_;         // of the source
  std::vector<PeerId> target_peers_;  // the source, as the target knows it
};

}  // namespace kvrail::perf

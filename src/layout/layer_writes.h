#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvrail/transfer_plan.h"
#include "kvrail/write_list.h"
#include "layout/placement_index.h"

namespace kvrail {

// What one rank sends to another from one region into one region.
struct RegionWrites {
  RankIndex source_rank;
  RankIndex target_rank;
  RegionId source_region;      // of the source node
  RegionId target_region;      // of the target node
  std::vector<WriteRun> runs;  // offsets from the regions' starts; neighbours in memory adjoin
  std::uint64_t bytes = 0;
  std::uint64_t units = 0;
};

// Turns the runs of a cache group into the writes of one of its layers. Built once per plan, which
// it keeps; immutable, and so safe to use from any thread.
class LayerWriter {
 public:
  explicit LayerWriter(const TransferPlan& plan);

  // Appends the writes of `layer`: `runs` is what append_runs gave for the layer's group; those of
  // paths that do not hold the layer are left out. Runs of different tensors that share both
  // regions come in one entry, in their order. Entries that are in `out` already (of other layers
  // or chunks) are added to where ranks and regions agree.
  void append(LayerIndex layer, std::span<const PlannedRun> runs,
              std::vector<RegionWrites>& out) const;

 private:
  TransferPlan plan_;
  PlacementIndex source_;
  PlacementIndex target_;
};

// The writes that fill a context slot of a data-parallel rank, one per context of the target. The
// plan has contexts and both slots exist (check_context_slot).
std::vector<RegionWrites> context_writes(const TransferPlan& plan, DpRank source_dp_rank,
                                         ContextSlot source_slot, DpRank target_dp_rank,
                                         ContextSlot target_slot);

}  // namespace kvrail

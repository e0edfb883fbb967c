#include "layout/layer_writes.h"

#include <algorithm>
#include <array>
#include <optional>

#include "layout/dp_ranks.h"

namespace kvrail {
namespace {

// The entry of `out` for these ranks and regions, made if there is none; `runs` is how many may
// come.
std::size_t entry_for(const PlannedRun& run, RegionId source_region, RegionId target_region,
                      std::size_t runs, std::vector<RegionWrites>& out) {
  // The latest entries are the likely ones.
  const auto found = std::find_if(out.rbegin(), out.rend(), [&](const RegionWrites& writes) {
    return writes.source_rank == run.source_rank && writes.target_rank == run.target_rank &&
           writes.source_region == source_region && writes.target_region == target_region;
  });
  if (found != out.rend()) {
    return static_cast<std::size_t>(out.rend() - found) - 1;
  }
  out.push_back({run.source_rank, run.target_rank, source_region, target_region, {}, 0, 0});
  out.back().runs.reserve(runs);
  return out.size() - 1;
}

// Where one tensor's runs go.
struct Destination {
  std::size_t entry = 0;
  std::uint64_t source_base = 0;
  std::uint64_t target_base = 0;
};

}  // namespace

LayerWriter::LayerWriter(const TransferPlan& plan)
    : plan_(plan), source_(plan.source()), target_(plan.target()) {}

void LayerWriter::append(LayerIndex layer, std::span<const PlannedRun> runs,
                         std::vector<RegionWrites>& out) const {
  std::array<std::optional<Destination>, kMaxTensors> destinations;
  for (auto first = runs.begin(); first != runs.end();) {
    const auto end = std::find_if(first, runs.end(),
                                  [&](const PlannedRun& run) { return run.path != first->path; });
    if (!plan_.path_holds(first->path, layer)) {
      first = end;
      continue;
    }
    destinations.fill(std::nullopt);
    for (auto run = first; run != end; ++run) {
      std::optional<Destination>& known = destinations[run->tensor];
      if (!known) {
        const auto* source = source_.find(run->source_rank, layer, run->tensor);
        const auto* target = target_.find(run->target_rank, layer, run->tensor);
        known = {entry_for(*run, source->region, target->region,
                           static_cast<std::size_t>(end - first), out),
                 source->base_offset_bytes, target->base_offset_bytes};
      }
      RegionWrites& writes = out[known->entry];
      writes.runs.push_back({known->source_base + run->source_offset_bytes,
                             known->target_base + run->target_offset_bytes, run->size_bytes,
                             run->units, run->count, run->source_stride_bytes,
                             run->target_stride_bytes});
      writes.bytes += run->size_bytes * run->count;
      writes.units += std::uint64_t{run->units} * run->count;
    }
    first = end;
  }
}

std::vector<RegionWrites> context_writes(const TransferPlan& plan, DpRank source_dp_rank,
                                         ContextSlot source_slot, DpRank target_dp_rank,
                                         ContextSlot target_slot) {
  const auto sources = contexts_of(plan.source(), source_dp_rank);
  const auto targets = contexts_of(plan.target(), target_dp_rank);
  const auto units = static_cast<std::uint32_t>(plan.context_units());
  std::vector<RegionWrites> writes;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const ContextLayout& source = *sources[i % sources.size()];
    const ContextLayout& target = *targets[i];
    const WriteRun run{source.base_offset_bytes + source_slot.value() * source.slot_stride_bytes,
                       target.base_offset_bytes + target_slot.value() * target.slot_stride_bytes,
                       target.slot_bytes, units};
    writes.push_back({source.rank,
                      target.rank,
                      source.region,
                      target.region,
                      {run},
                      run.size_bytes,
                      std::uint64_t{units}});
  }
  return writes;
}

}  // namespace kvrail

#include "layout/layer_writes.h"

#include <algorithm>
#include <array>
#include <optional>

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

// Where one tensor's runs go; entry is nullopt if the ranks do not both hold the layer.
struct Destination {
  std::optional<std::size_t> entry;
  std::uint64_t source_base = 0;
  std::uint64_t target_base = 0;
};

}  // namespace

LayerWriter::LayerWriter(const TransferPlan& plan)
    : source_(plan.source()), target_(plan.target()) {}

void LayerWriter::append(LayerIndex layer, std::span<const PlannedRun> runs,
                         std::vector<RegionWrites>& out) const {
  std::array<std::optional<Destination>, kMaxTensors> destinations;
  for (auto first = runs.begin(); first != runs.end();) {
    const auto end = std::find_if(first, runs.end(), [&](const PlannedRun& run) {
      return run.source_rank != first->source_rank || run.target_rank != first->target_rank;
    });
    destinations.fill(std::nullopt);
    for (auto run = first; run != end; ++run) {
      std::optional<Destination>& known = destinations[run->tensor];
      if (!known) {
        known.emplace();
        const auto* source = source_.find(run->source_rank, layer, run->tensor);
        const auto* target = target_.find(run->target_rank, layer, run->tensor);
        if (source != nullptr && target != nullptr) {
          known->entry = entry_for(*run, source->region, target->region,
                                   static_cast<std::size_t>(end - first), out);
          known->source_base = source->base_offset_bytes;
          known->target_base = target->base_offset_bytes;
        }
      }
      if (!known->entry) {
        continue;
      }
      RegionWrites& writes = out[*known->entry];
      writes.runs.push_back({known->source_base + run->source_offset_bytes,
                             known->target_base + run->target_offset_bytes, run->size_bytes,
                             run->units});
      writes.bytes += run->size_bytes;
      writes.units += run->units;
    }
    first = end;
  }
}

RegionWrites context_writes(const TransferPlan& plan, ContextSlot source_slot,
                            ContextSlot target_slot) {
  const ContextLayout& source = *plan.source().context;
  const ContextLayout& target = *plan.target().context;
  const auto units = static_cast<std::uint32_t>(plan.context_units());
  const WriteRun run{source.base_offset_bytes + source_slot.value() * source.slot_stride_bytes,
                     target.base_offset_bytes + target_slot.value() * target.slot_stride_bytes,
                     target.slot_bytes, units};
  return {source.rank, target.rank,    source.region,       target.region,
          {run},       run.size_bytes, std::uint64_t{units}};
}

}  // namespace kvrail

#include "messenger/region_import.h"

#include <algorithm>

#include <fmt/format.h>

namespace kvrail {

void import_regions(TransferEngine& engine, AttachedPeer& peer) {
  if (!peer.send) return;
  SendRoute& route = *peer.send;
  route.regions.clear();
  const auto import = [&](RegionId region) {
    if (route.regions.contains(region)) return;
    const auto entry =
        std::find_if(route.descriptors->begin(), route.descriptors->end(),
                     [region](const RegionEntry& other) { return other.region == region; });
    if (entry == route.descriptors->end()) {
      throw Error(ErrorCode::kMalformed,
                  fmt::format("the layout of {} places pages in region {}, which it did not tell",
                              peer.label, region.value()));
    }
    route.regions.emplace(region, engine.import_region(peer.links, entry->descriptor));
  };
  const KvLayout& layout = route.plan.target();
  for (const RankLayout& rank : layout.ranks) {
    for (const RankGroup& group : rank.groups) {
      for (const TensorPlacement& placement : group.placements) import(placement.region);
    }
  }
  for (const ContextLayout& context : layout.contexts) import(context.region);
}

}  // namespace kvrail

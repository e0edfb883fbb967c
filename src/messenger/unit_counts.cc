#include "messenger/unit_counts.h"

#include <cstddef>
#include <map>

#include "layout/dp_ranks.h"

namespace kvrail {

std::vector<UnitsEntry> units_by_group(const TransferPlan& plan, DpRank target, TokenRange sent,
                                       bool context) {
  std::map<DeviceGroupId, std::uint64_t> units;
  const KvLayout& layout = plan.target();
  const auto by_rank = plan.units_by_target_rank(target, sent);
  for (std::size_t rank = 0; rank < layout.ranks.size(); ++rank) {
    units[layout.ranks[rank].device_group] += by_rank[rank];
  }
  if (context) {
    for (const ContextLayout* slots : contexts_of(layout, target)) {
      units[layout.ranks[slots->rank.value()].device_group] += plan.context_units();
    }
  }
  std::vector<UnitsEntry> entries;
  for (const auto& [group, count] : units) {
    if (count > 0) entries.push_back({group, count});
  }
  return entries;
}

std::uint64_t bytes_sent(const TransferPlan& plan, DpRank target, TokenRange sent, bool context) {
  std::uint64_t bytes = plan.bytes(sent);
  if (context) {
    for (const ContextLayout* slots : contexts_of(plan.target(), target)) {
      bytes += slots->slot_bytes;
    }
  }
  return bytes;
}

}  // namespace kvrail

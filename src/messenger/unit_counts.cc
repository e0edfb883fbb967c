#include "messenger/unit_counts.h"

#include <cstddef>
#include <map>

namespace kvrail {

std::vector<UnitsEntry> units_by_group(const TransferPlan& plan, TokenRange sent, bool context) {
  std::map<DeviceGroupId, std::uint64_t> units;
  const auto& ranks = plan.target().ranks;
  const auto by_rank = plan.units_by_target_rank(sent);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    units[ranks[rank].device_group] += by_rank[rank];
  }
  if (context && plan.target().context) {
    units[ranks[plan.target().context->rank.value()].device_group] += plan.context_units();
  }
  std::vector<UnitsEntry> entries;
  for (const auto& [group, count] : units) {
    if (count > 0) entries.push_back({group, count});
  }
  return entries;
}

std::uint64_t bytes_sent(const TransferPlan& plan, TokenRange sent, bool context) {
  const KvLayout& layout = plan.target();
  std::uint64_t token_bytes = 0;
  for (const RankLayout& rank : layout.ranks) {
    for (std::size_t group = 0; group < layout.groups.size(); ++group) {
      const auto& tensors = layout.groups[group].tensors;
      for (const TensorPlacement& placement : rank.groups[group].placements) {
        token_bytes += std::uint64_t{rank.groups[group].heads[placement.tensor].count} *
                       tensors[placement.tensor].head_bytes;
      }
    }
  }
  const std::uint64_t tokens = sent.empty() ? 0 : sent.end - sent.first;
  return tokens * token_bytes + (context && layout.context ? layout.context->slot_bytes : 0);
}

}  // namespace kvrail

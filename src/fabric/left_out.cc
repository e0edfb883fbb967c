#include "fabric/left_out.h"

#include <algorithm>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

bool has_rail(const NodeRails& rails, RailId id) {
  return id.group.value() < rails.size() && id.rail.value() < rails[id.group.value()].count();
}

}  // namespace

std::vector<NodeRails> leave_out(std::vector<NodeRails> providers,
                                 std::span<const RailId> left_out) {
  for (const RailId& id : left_out) {
    bool exists = false;
    for (NodeRails& rails : providers) {
      if (!has_rail(rails, id)) continue;
      rails[id.group.value()].leave_out(id.rail);
      exists = true;
    }
    if (!exists) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("left_out names rail {} of device group {}, which does not exist",
                              id.rail.value(), id.group.value()));
    }
  }
  std::size_t empty_group = 0;
  for (NodeRails& rails : providers) {
    const auto empty = std::find_if(rails.begin(), rails.end(),
                                    [](const GroupRails& group) { return !group.has_any_link(); });
    if (empty == rails.end()) continue;
    empty_group = static_cast<std::size_t>(empty - rails.begin());
    rails.clear();
  }
  if (std::all_of(providers.begin(), providers.end(),
                  [](const NodeRails& rails) { return rails.empty(); })) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("left_out names every rail of device group {}: leave one in", empty_group));
  }
  return providers;
}

}  // namespace kvrail

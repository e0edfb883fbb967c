#pragma once

#include <span>
#include <vector>

#include "fabric/channel_plan.h"
#include "kvrail/ids.h"

namespace kvrail {

// The rails of each provider without those that are left out; none of a provider that would have a
// device group without a rail. Throws Error (kInvalidArgument): a rail that no provider has, or no
// provider that remains.
std::vector<NodeRails> leave_out(std::vector<NodeRails> providers,
                                 std::span<const RailId> left_out);

}  // namespace kvrail

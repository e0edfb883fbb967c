#pragma once

#include <cstdint>
#include <vector>

#include "kvrail/transfer_plan.h"
#include "wire/message.h"

namespace kvrail {

// Units that arrive on each device group of the target's data-parallel rank for the tokens `sent`
// and, if wanted, a context slot; groups without any are left out. In order of the groups.
std::vector<UnitsEntry> units_by_group(const TransferPlan& plan, DpRank target, TokenRange sent,
                                       bool context);

// The bytes that those units fill.
std::uint64_t bytes_sent(const TransferPlan& plan, DpRank target, TokenRange sent, bool context);

}  // namespace kvrail

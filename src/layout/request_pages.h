#pragma once

#include <vector>

#include "kvrail/decode_scheduler.h"
#include "kvrail/kv_layout.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

// The pages, by cache group, that hold tokens of `sent`: what is not known to be whole when a
// request fails. `pages` has passed check_pages for this layout and `sent`.
std::vector<MissingPages> pages_of(const KvLayout& layout, TokenRange sent,
                                   const RequestPages& pages);

}  // namespace kvrail

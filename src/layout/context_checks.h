#pragma once

#include "kvrail/kv_layout.h"

namespace kvrail {

// The part of validate() that is about context slots. The ranks are valid. Throws Error
// (kInvalidArgument).
void check_contexts(const KvLayout& layout);

}  // namespace kvrail

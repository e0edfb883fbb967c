#pragma once

#include <optional>
#include <string>

#include "kvrail/kv_layout.h"

namespace kvrail {

// The first fact in which two valid layouts are not sharded alike, so that rank i cannot simply
// send to rank i; nullopt if they are. Also names what no plan serves (context parallel ranks).
std::optional<std::string> first_difference(const KvLayout& source, const KvLayout& target);

}  // namespace kvrail

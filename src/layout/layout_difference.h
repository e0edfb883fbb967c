#pragma once

#include <optional>
#include <string>

#include "kvrail/kv_layout.h"

namespace kvrail {

// The first fact by which two valid layouts do not describe the same model; nullopt if they do.
std::optional<std::string> first_difference(const KvLayout& source, const KvLayout& target);

}  // namespace kvrail

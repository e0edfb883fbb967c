#pragma once

#include <fmt/format.h>

#include <utility>

#include "kvrail/error.h"

namespace kvrail {

// Throws Error (kInvalidArgument) with the formatted text.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kvrail

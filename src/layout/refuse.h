#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "kvrail/error.h"

namespace kvrail {

// Throws Error (kInvalidArgument) with the formatted text.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

// Refuses a field outside [first, last].
inline void check_range(std::string_view field, std::uint64_t value, std::uint64_t first,
                        std::uint64_t last) {
  if (value < first || value > last) {
    refuse("{} is {}, but must be {} to {}", field, value, first, last);
  }
}

}  // namespace kvrail

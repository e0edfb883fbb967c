#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

namespace kvrail {

// Sums and products of sizes that come from outside: nullopt where 64 bits do not hold them.

inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    return std::nullopt;
  }
  return sum;
}

template <std::convertible_to<std::uint64_t>... Rest>
std::optional<std::uint64_t> checked_product(std::uint64_t first, Rest... rest) {
  std::uint64_t product = first;
  if ((__builtin_mul_overflow(product, std::uint64_t{rest}, &product) || ...)) {
    return std::nullopt;
  }
  return product;
}

}  // namespace kvrail

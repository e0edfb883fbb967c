#pragma once

#include <cstdint>
#include <random>

namespace kvrail {

using Random = std::mt19937_64;

// Uniform in [first, last].
inline std::uint32_t pick(Random& random, std::uint32_t first, std::uint32_t last) {
  return std::uniform_int_distribution<std::uint32_t>(first, last)(random);
}
inline bool coin(Random& random) { return pick(random, 0, 1) == 1; }
// Once in `times`.
inline bool seldom(Random& random, std::uint32_t times) { return pick(random, 1, times) == 1; }

}  // namespace kvrail

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace kvrail {

// What both nodes know of a request by its seed, so that either may hear of it first. The seed is
// the decode process's generation, and the request's number there.
struct SeedPrompt {
  std::uint32_t tokens = 1;
  bool wants_context = false;

  static SeedPrompt of(std::uint64_t seed, std::uint32_t max_tokens) {
    std::minstd_rand random(static_cast<std::uint32_t>(seed * 0x9e3779b97f4a7c15u >> 32));
    random.discard(2);
    SeedPrompt prompt;
    prompt.tokens = 1 + static_cast<std::uint32_t>(random()) % max_tokens;
    prompt.wants_context = random() % 4 == 0;
    return prompt;
  }
  // A request's payload: the seed.
  static std::vector<std::byte> payload(std::uint64_t seed) {
    std::vector<std::byte> bytes(sizeof seed);
    std::memcpy(bytes.data(), &seed, sizeof seed);
    return bytes;
  }
  static std::uint64_t seed(std::uint32_t generation, std::uint32_t number) {
    return std::uint64_t{generation} << 32 | number;
  }
};

}  // namespace kvrail

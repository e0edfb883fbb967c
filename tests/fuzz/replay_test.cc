// Runs a fuzzer's target where there is no fuzzer: over its seeds and over what becomes of them
// when bytes are changed, removed, added or spliced, the same on every run.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "fuzz/fuzz_target.h"

namespace kvrail {
namespace {

using Input = std::vector<std::byte>;

void run(const Input& input) {
  // A copy of just that size, so that a read beyond it is seen.
  const Input exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(exact.data()), exact.size());
}

Input mutate(Input input, const Input& other, std::mt19937_64& random) {
  for (std::uint64_t rounds = 1 + random() % 3; rounds > 0; --rounds) {
    const auto at = static_cast<std::ptrdiff_t>(random() % (input.size() + 1));
    switch (random() % 5) {
      case 0:
        if (at < std::ssize(input))
          input[static_cast<std::size_t>(at)] ^= std::byte(1 << random() % 8);
        break;
      case 1:
        if (at < std::ssize(input)) input[static_cast<std::size_t>(at)] = std::byte(random() % 256);
        break;
      case 2:
        input.resize(static_cast<std::size_t>(at));
        break;
      case 3:
        input.insert(input.begin() + at, 1 + random() % 8, std::byte(random() % 256));
        break;
      default:
        input.resize(static_cast<std::size_t>(at));
        input.insert(input.end(), other.begin() + std::min(at, std::ssize(other)), other.end());
    }
  }
  return input;
}

TEST(FuzzReplayTest, SeedsAndTheirMutations) {
  const std::vector<Input> seeds = fuzz_seeds();
  ASSERT_FALSE(seeds.empty());
  run({});
  for (const Input& seed : seeds) run(seed);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    run(mutate(seeds[random() % seeds.size()], seeds[random() % seeds.size()], random));
  }
}

}  // namespace
}  // namespace kvrail

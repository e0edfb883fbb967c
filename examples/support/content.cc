#include "support/content.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "support/mix.h"

namespace mock_engine {
namespace {

constexpr std::uint64_t kWordStep = 0xd1342543de82ef95u;  // odd, so that words never repeat
constexpr std::byte kPoison{0xa5};
constexpr std::size_t kWord = sizeof(std::uint64_t);

std::uint64_t first_word(const VectorPlace& place) {
  return mix64(place.layer_seed ^ (place.token_key + place.head * 0x9e3779b97f4a7c15u));
}

std::uint64_t load(const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, kWord);
  return word;
}

}  // namespace

std::uint64_t layer_seed(std::uint64_t model_seed, std::uint32_t layer, std::uint32_t tensor) {
  return mix64(mix64(model_seed) ^ (std::uint64_t{layer} << 32 | tensor));
}

void fill_vector(std::span<std::byte> vector, const VectorPlace& place) {
  const std::uint64_t first = first_word(place);
  const std::size_t words = vector.size() / kWord;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = first + i * kWordStep;
    std::memcpy(vector.data() + i * kWord, &word, kWord);
  }
  const std::uint64_t last = first + words * kWordStep;
  std::memcpy(vector.data() + words * kWord, &last, vector.size() % kWord);
}

std::uint64_t count_wrong(std::span<const std::byte> vector, const VectorPlace& place) {
  const std::uint64_t first = first_word(place);
  const std::size_t words = vector.size() / kWord;
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < words; ++i) {
    difference |= load(vector.data() + i * kWord) ^ (first + i * kWordStep);
  }
  if (difference == 0 && vector.size() % kWord == 0) return 0;

  std::uint64_t wrong = 0;
  for (std::size_t at = 0; at < vector.size(); at += kWord) {
    std::array<std::byte, kWord> expected{};
    const std::uint64_t word = first + at / kWord * kWordStep;
    std::memcpy(expected.data(), &word, kWord);
    const std::size_t size = std::min(kWord, vector.size() - at);
    for (std::size_t i = 0; i < size; ++i) wrong += vector[at + i] != expected[i];
  }
  return wrong;
}

void fill_poison(std::span<std::byte> bytes) {
  std::memset(bytes.data(), std::to_integer<int>(kPoison), bytes.size());
}

std::uint64_t count_not_poison(std::span<const std::byte> bytes) {
  std::uint64_t poison_word = 0;
  std::memset(&poison_word, std::to_integer<int>(kPoison), kWord);
  const std::size_t words = bytes.size() / kWord;
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < words; ++i)
    difference |= load(bytes.data() + i * kWord) ^ poison_word;
  if (difference == 0 && bytes.size() % kWord == 0) return 0;
  return static_cast<std::uint64_t>(
      std::count_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte != kPoison; }));
}

}  // namespace mock_engine

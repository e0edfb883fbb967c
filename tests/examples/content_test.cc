#include "support/content.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace mock_engine {
namespace {

std::vector<std::byte> filled(std::size_t size, const VectorPlace& place) {
  std::vector<std::byte> bytes(size);
  fill_vector(bytes, place);
  return bytes;
}

TEST(Content, IsRightWhereItWasWritten) {
  for (const std::size_t size : {1u, 7u, 8u, 9u, 128u, 256u, 1152u}) {
    const VectorPlace place{layer_seed(1, 2, 0), 3, 4};
    EXPECT_EQ(count_wrong(filled(size, place), place), 0u) << size;
  }
}

TEST(Content, IsWrongAtEveryOtherPlace) {
  const VectorPlace place{layer_seed(1, 2, 0), 3, 4};
  const auto bytes = filled(128, place);
  for (const VectorPlace& other :
       {VectorPlace{layer_seed(9, 2, 0), 3, 4}, VectorPlace{layer_seed(1, 9, 0), 3, 4},
        VectorPlace{layer_seed(1, 2, 1), 3, 4}, VectorPlace{layer_seed(1, 2, 0), 9, 4},
        VectorPlace{layer_seed(1, 2, 0), 3, 9}}) {
    EXPECT_GT(count_wrong(bytes, other), 100u);
  }
}

TEST(Content, DiffersFromWordToWord) {
  const auto bytes = filled(4096, {layer_seed(1, 1, 1), 1, 1});
  std::set<std::vector<std::byte>> words;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    words.insert({bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  bytes.begin() + static_cast<std::ptrdiff_t>(at + 8)});
  }
  EXPECT_EQ(words.size(), 512u);
}

TEST(Content, CountsEveryWrongByte) {
  const VectorPlace place{layer_seed(1, 2, 0), 3, 4};
  auto bytes = filled(131, place);
  for (const std::size_t at : {0u, 63u, 127u, 130u}) bytes[at] ^= std::byte{1};
  EXPECT_EQ(count_wrong(bytes, place), 4u);
}

TEST(Poison, CountsEveryByteThatIsNot) {
  std::vector<std::byte> bytes(101);
  EXPECT_EQ(count_not_poison(bytes), 101u);
  fill_poison(bytes);
  EXPECT_EQ(count_not_poison(bytes), 0u);
  bytes[0] ^= std::byte{0x80};
  bytes[100] ^= std::byte{1};
  EXPECT_EQ(count_not_poison(bytes), 2u);
}

}  // namespace
}  // namespace mock_engine

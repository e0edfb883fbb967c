#include "support/prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace mock_engine {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Prompt, SurvivesItsPayload) {
  const Prompt prompt("r1", 70, 32, {5, 6, 7});
  const Prompt copy = Prompt::decode_payload("r1", 70, prompt.encode_payload());
  for (std::uint32_t token = 0; token < 70; ++token) {
    EXPECT_EQ(prompt.token_key(token), copy.token_key(token));
  }
}

TEST(Prompt, RefusesPayloadsThatDescribeNoPrompt) {
  const Prompt prompt("r1", 70, 32, {5, 6, 7});
  EXPECT_THROW(Prompt::decode_payload("r1", 97, prompt.encode_payload()), std::invalid_argument);
  for (const char* text :
       {"", "{", "[]", "null", "{}", R"({"block_tokens": 0, "hash_ids": [1]})",
        R"({"block_tokens": "a", "hash_ids": [1]})", R"({"block_tokens": 8, "hash_ids": [[1]]})"}) {
    EXPECT_THROW(Prompt::decode_payload("r1", 1, bytes_of(text)), std::invalid_argument) << text;
  }
}

TEST(Prompt, KeysAreEqualExactlyWhereTheTextUpToThereIs) {
  const Prompt a("a", 64, 16, {1, 2, 3, 4});
  const Prompt b("b", 64, 16, {1, 2, 9, 4});
  EXPECT_EQ(a.token_key(31), b.token_key(31));
  EXPECT_NE(a.token_key(32), b.token_key(32));
  EXPECT_NE(a.token_key(48), b.token_key(48)) << "the same block after another one";
  EXPECT_NE(a.token_key(0), a.token_key(1));
  EXPECT_EQ(a.page_key(0, 32), b.page_key(0, 32));
  EXPECT_NE(a.page_key(1, 32), b.page_key(1, 32));
}

TEST(Prompt, CountsPagesOfTheWholePrompt) {
  EXPECT_EQ(Prompt("a", 1, 16, {1}).pages(8), 1u);
  EXPECT_EQ(Prompt("a", 8, 16, {1}).pages(8), 1u);
  EXPECT_EQ(Prompt("a", 9, 16, {1}).pages(8), 2u);
}

}  // namespace
}  // namespace mock_engine

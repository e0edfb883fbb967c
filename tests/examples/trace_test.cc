#include "support/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <stdexcept>

namespace mock_engine {
namespace {

using testing::HasSubstr;

std::vector<PromptPtr> read(const std::string& text, const TraceOptions& options = {}) {
  std::istringstream lines(text);
  return read_trace(lines, "trace.jsonl", options);
}

std::string error_of(const std::string& text, const TraceOptions& options = {}) {
  try {
    read(text, options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

constexpr const char* kLine =
    R"({"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [4, 9]})";

TEST(Trace, ReadsRequestsInOrder) {
  const auto prompts = read(std::string(kLine) + "\n\n" +
                            R"({"input_length": 3, "hash_ids": [4], "timestamp": 1})" + "\n");
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0]->external_id(), "r0");
  EXPECT_EQ(prompts[0]->prompt_tokens(), 1000u);
  EXPECT_EQ(prompts[1]->external_id(), "r1");
  EXPECT_EQ(prompts[1]->prompt_tokens(), 3u);
  EXPECT_EQ(prompts[0]->token_key(2), prompts[1]->token_key(2)) << "equal ids at the front";
}

TEST(Trace, ReadsNoMoreThanAskedFor) {
  const std::string text = std::string(kLine) + "\n" + kLine + "\nnot JSON\n";
  EXPECT_EQ(read(text, {.limit = 2}).size(), 2u);
}

TEST(Trace, DividesAllTokenCountsAndStillCoversEachPrompt) {
  for (const std::uint32_t scale : {2u, 3u, 16u, 100u, 511u, 512u, 513u, 100000u}) {
    const auto prompts = read(kLine, {.scale = scale});
    ASSERT_EQ(prompts.size(), 1u);
    EXPECT_EQ(prompts[0]->prompt_tokens(), (1000 + scale - 1) / scale);
  }
}

TEST(Trace, NamesALineThatIsNotJson) {
  const std::string error = error_of(std::string(kLine) + "\n{\"input_length\": \n");
  EXPECT_THAT(error, HasSubstr("trace.jsonl line 2 is not JSON"));
  EXPECT_THAT(error, HasSubstr("input_length and hash_ids"));
}

TEST(Trace, NamesWhatIsWrongWithALine) {
  EXPECT_THAT(error_of(R"({"hash_ids": [1]})"), HasSubstr("line 1: \"input_length\" is missing"));
  EXPECT_THAT(error_of(R"({"input_length": 5})"), HasSubstr("\"hash_ids\" is missing"));
  EXPECT_THAT(error_of(R"({"input_length": 0, "hash_ids": [1]})"), HasSubstr("from 1, not 0"));
  EXPECT_THAT(error_of(R"({"input_length": -4, "hash_ids": [1]})"), HasSubstr("not -4"));
  EXPECT_THAT(error_of(R"({"input_length": 1e30, "hash_ids": [1]})"), HasSubstr("from 1"));
  EXPECT_THAT(error_of(R"({"input_length": 5, "hash_ids": ["a"]})"), HasSubstr("line 1"));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("JSON object"));
  EXPECT_THAT(error_of(""), HasSubstr("holds no request"));
}

TEST(Trace, RefusesIdsThatDoNotCoverThePrompt) {
  const std::string error = error_of(kLine, {.block_tokens = 16});
  EXPECT_THAT(error, HasSubstr("2 hash ids of 16 tokens cover 32 tokens, but the prompt has 1000"));
  EXPECT_THAT(error, HasSubstr("--trace-block-tokens"));
}

TEST(Trace, NamesAFileThatIsNotThere) {
  EXPECT_THROW(read_trace("/nowhere/trace.jsonl", {}), std::runtime_error);
}

TEST(OwnRequests, AreAlwaysTheSameAndOfTheLengthAskedFor) {
  const auto prompts = make_prompts(200, 100);
  const auto again = make_prompts(200, 100);
  ASSERT_EQ(prompts.size(), 200u);
  std::set<std::string> names;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_GE(prompts[i]->prompt_tokens(), 50u);
    EXPECT_LT(prompts[i]->prompt_tokens(), 150u);
    EXPECT_EQ(prompts[i]->token_key(49), again[i]->token_key(49));
    names.insert(prompts[i]->external_id());
  }
  EXPECT_EQ(names.size(), 200u);
  EXPECT_EQ(prompts[1]->token_key(0), prompts[3]->token_key(0));
  EXPECT_NE(prompts[1]->token_key(30), prompts[3]->token_key(30));
  EXPECT_NE(prompts[0]->token_key(0), prompts[2]->token_key(0));
}

TEST(OwnRequests, CanBeOneTokenLong) { EXPECT_EQ(make_prompts(3, 1)[2]->prompt_tokens(), 1u); }

TEST(Slices, GiveEachRequestToOneNode) {
  const auto prompts = make_prompts(10, 8);
  std::set<PromptPtr> all;
  for (std::uint32_t index = 0; index < 3; ++index) {
    for (const PromptPtr& prompt : slice(prompts, index, 3)) EXPECT_TRUE(all.insert(prompt).second);
  }
  EXPECT_EQ(all.size(), 10u);
}

TEST(Routes, TakeThePrefillNodesInTurn) {
  for (std::uint32_t number = 0; number < 30; ++number) {
    EXPECT_EQ(route(number + 3, 3, 2), (route(number, 3, 2) + 1) % 2);
  }
}

}  // namespace
}  // namespace mock_engine

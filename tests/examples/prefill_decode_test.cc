// prefill_decode as a whole: what it moves, and what it says at the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "examples/example_process.h"

namespace mock_engine {
namespace {

using nlohmann::json;
using Arguments = std::vector<std::string>;

// Small enough for a sanitizer.
const Arguments kSmall{"--model",         "SmolLM2-135M",
                       "--memory-gib",    "0.1",
                       "--requests",      "8",
                       "--prompt-tokens", "150",
                       "--page-tokens",   "16",
                       "--chunk-tokens",  "250",
                       "--layer-ms",      "1",
                       "--json"};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class Providers : public testing::TestWithParam<const char*> {};

TEST_P(Providers, MoveEveryByte) {
  const json summary = run_to_end(with(kSmall, {"--provider", GetParam()}));
  EXPECT_EQ(summary.at("requests"), 8);
  EXPECT_EQ(summary.at("providers"), json::array({GetParam()}));
  const std::uint64_t sent_tokens = summary.at("prompt_tokens").get<std::uint64_t>() - 8 -
                                    summary.at("decode_cached_tokens").get<std::uint64_t>();
  EXPECT_EQ(summary.at("bytes"), sent_tokens * 23'040);
  EXPECT_GT(summary.at("writes"), 0);
  EXPECT_LT(summary.at("writes"), summary.at("units"));
}

TEST_P(Providers, ServeThreeDecodeNodesFromTwoPrefillNodes) {
  const json summary =
      run_to_end(with(kSmall, {"--provider", GetParam(), "--prefills", "2", "--decodes", "3",
                               "--requests", "18", "--memory-gib", "0.2"}));
  EXPECT_EQ(summary.at("requests"), 18);
}

TEST_P(Providers, DeliverTheFirstPagesLongBeforeThePassEnds) {
  const json summary =
      run_to_end({"--provider", GetParam(), "--model", "DeepSeek-R1", "--requests", "1",
                  "--prompt-tokens", "200", "--memory-gib", "0.2", "--layer-ms", "15", "--json"});
  EXPECT_LT(summary.at("first_page_at_pass_percent").at("max"), 10.0);
  EXPECT_GT(summary.at("first_page_at_pass_percent").at("max"), 0.0);
}

INSTANTIATE_TEST_SUITE_P(OfThisHost, Providers, testing::Values("tcp", "shm"),
                         [](const auto& info) { return std::string(info.param); });

TEST(PrefillDecode, MovesTheCachesOfTensorParallelRanksOverSeveralRails) {
  run_to_end(with(kSmall, {"--provider", "tcp", "--tp", "3", "--rails", "2"}));
  run_to_end(with(kSmall, {"--provider", "shm", "--tp", "6", "--rails", "2"}));
}

TEST(PrefillDecode, ProvesAndEncryptsWithAKey) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "kvrail_key";
  std::ofstream(path) << std::string(32, '5') << std::string(32, 'c') << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  const json summary =
      run_to_end(with(kSmall, {"--key-file", path, "--decodes", "2", "--listen", "127.0.0.1:0"}));
  std::filesystem::remove(path);
  EXPECT_EQ(summary.at("requests"), 8);
}

TEST(PrefillDecode, LetsThePrefillNodeBeginFirst) {
  run_to_end(with(kSmall,
                  {"--prefill-first", "--prefills", "2", "--decodes", "2", "--memory-gib", "0.2"}));
}

TEST(PrefillDecode, ServesMoreThanThePoolsHold) {
  // 16 pages of 16 tokens: one or two requests at a time.
  const json summary = run_to_end(with(kSmall, {"--pool-pages", "16", "--requests", "12"}));
  EXPECT_EQ(summary.at("pages"), 32);
}

TEST(PrefillDecode, FindsEqualPrefixesOfATraceInItsCaches) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "kvrail_prefixes.jsonl";
  std::ofstream file(path);
  for (int i = 0; i < 6; ++i) {
    file << json{{"timestamp", i},
                 {"input_length", 400 + i},
                 {"output_length", 1},
                 {"hash_ids", {7, 8, 9, 100 + i}}}
         << "\n";
  }
  file.close();
  const json summary =
      run_to_end(with(kSmall, {"--trace", path, "--trace-scale", "2", "--concurrency", "1",
                               "--trace-block-tokens", "128", "--requests", "5"}));
  std::filesystem::remove(path);
  EXPECT_EQ(summary.at("requests"), 5);
  EXPECT_EQ(summary.at("prompt_tokens"), 200 + 201 + 201 + 202 + 202);
  EXPECT_EQ(summary.at("decode_cached_tokens"), 4 * 192) << "three blocks of 64 tokens, four times";
  EXPECT_EQ(summary.at("prefill_cached_tokens"), 4 * 192);
}

TEST(PrefillDecode, EndsWithATableForPeople) {
  Arguments arguments = kSmall;
  arguments.pop_back();  // --json
  ExampleProcess process(arguments);
  ASSERT_EQ(process.wait(), 0) << process.said();
  for (const char* row : {"requests", "prompt tokens", "bytes", "units", "writes after merging",
                          "rate while transferring", "layer's signal to its first post",
                          "layer's signal to its last byte", "pass when first page landed",
                          "last layer's signal to ready", "wrong bytes                         0",
                          "pages free again"}) {
    EXPECT_THAT(process.said(), testing::HasSubstr(row));
  }
}

}  // namespace
}  // namespace mock_engine

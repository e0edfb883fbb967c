// Every sharding against another one, between rank processes, every byte compared.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "examples/example_process.h"
#include "support/process_deadline.h"

namespace mock_engine {
namespace {

using nlohmann::json;
using Arguments = std::vector<std::string>;

// A config.json for --model.
class ModelConfig {
 public:
  explicit ModelConfig(const json& config)
      : path_(std::filesystem::path(testing::TempDir()) /
              ("kvrail_" +
               std::to_string(testing::UnitTest::GetInstance()->random_seed() + getpid()) + "_" +
               std::to_string(std::hash<json>{}(config)) + ".json")) {
    std::ofstream(path_) << config;
  }
  ~ModelConfig() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

json grouped(int kv_heads) {
  return {{"model_type", "small"},    {"num_hidden_layers", 3},          {"hidden_size", 128},
          {"num_attention_heads", 8}, {"num_key_value_heads", kv_heads}, {"head_dim", 16},
          {"torch_dtype", "bfloat16"}};
}

json latent() {
  json config = grouped(8);
  config["model_type"] = "small_latent";
  config["kv_lora_rank"] = 48;
  config["qk_rope_head_dim"] = 16;
  return config;
}

json hybrid() {
  json config = grouped(4);
  config["model_type"] = "small_hybrid";
  config["num_hidden_layers"] = 4;
  config["layer_types"] = {"full_attention", "sliding_attention", "linear_attention",
                           "sliding_attention"};
  config["sliding_window"] = 50;
  config["linear_num_key_heads"] = 4;
  config["linear_num_value_heads"] = 8;
  config["linear_key_head_dim"] = 8;
  config["linear_value_head_dim"] = 8;
  config["linear_conv_kernel_dim"] = 4;
  return config;
}

class Sharding : public testing::TestWithParam<const char*> {
 protected:
  static json run(const json& config, const Arguments& more) {
    const ModelConfig model(config);
    Arguments arguments{"--model",
                        model.path(),
                        "--provider",
                        GetParam(),
                        "--requests",
                        "6",
                        "--pool-pages",
                        "64",
                        "--layer-ms",
                        "0",
                        "--page-tokens",
                        "16",
                        "--json",
                        "--prompt-tokens",
                        "150"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const json summary = run_to_end(arguments);
    EXPECT_GT(summary.at("bytes"), 0);
    return summary;
  }
};

TEST_P(Sharding, OneRankToFour) { run(grouped(8), {"--decode-tp", "4"}); }
TEST_P(Sharding, TwoRanksToEight) { run(grouped(8), {"--prefill-tp", "2", "--decode-tp", "8"}); }
TEST_P(Sharding, FourRanksToTwo) { run(grouped(8), {"--prefill-tp", "4", "--decode-tp", "2"}); }
TEST_P(Sharding, EightRanksToOne) { run(grouped(8), {"--prefill-tp", "8"}); }

TEST_P(Sharding, FourRanksOfTwoHeadsToOne) { run(grouped(2), {"--prefill-tp", "4"}); }
TEST_P(Sharding, OneRankToEightOfTwoHeads) { run(grouped(2), {"--decode-tp", "8"}); }

TEST_P(Sharding, LatentsFromAllTensorParallelRanksToDataParallelOnes) {
  const json summary = run(latent(), {"--prefill-tp", "8", "--decode-dp", "8", "--requests", "64"});
  const std::uint64_t tokens = summary.at("prompt_tokens").get<std::uint64_t>() - 64 -
                               summary.at("decode_cached_tokens").get<std::uint64_t>();
  EXPECT_EQ(summary.at("bytes"), tokens * 3 * 64 * 2) << "one copy of each";
  EXPECT_LE(summary.at("source_rank_bytes_max_over_mean"), 1.25);
}

TEST_P(Sharding, PipelineStages) { run(grouped(8), {"--pp", "2"}); }

TEST_P(Sharding, PipelineStagesOfTensorParallelRanks) {
  run(grouped(8), {"--pp", "3", "--prefill-tp", "2", "--decode-tp", "4"});
}

TEST_P(Sharding, ContextParallelRanks) { run(grouped(8), {"--prefill-cp", "2"}); }

TEST_P(Sharding, ContextParallelRanksOnBothSides) {
  run(grouped(8), {"--prefill-cp", "2", "--decode-cp", "2", "--decode-tp", "2"});
}

TEST_P(Sharding, PagesOfOtherSizes) {
  run(grouped(8), {"--page-tokens", "64", "--page-tokens-decode", "16"});
}

TEST_P(Sharding, LargerPagesAndMoreRanks) {
  run(grouped(8), {"--page-tokens", "16", "--page-tokens-decode", "64", "--decode-tp", "2"});
}

TEST_P(Sharding, EqualHeadsNeedOneRunPerPage) {
  const json summary = run(grouped(8), {"--tp", "4", "--chunk-tokens", "100000"});
  // The last page of a prompt is sent in part: a run for each of the two heads of a rank.
  const std::uint64_t last_pages = std::uint64_t{6} * 3 * 4 * 2;
  EXPECT_EQ(summary.at("runs"), summary.at("pages_sent").get<std::uint64_t>() + last_pages);
  EXPECT_LT(summary.at("writes"), summary.at("runs")) << "K and V of a page adjoin";
}

TEST_P(Sharding, TokensFirstToHeadsFirst) {
  const json to_hnd = run(grouped(8), {"--layout", "nhd", "--decode-layout", "hnd"});
  const json same = run(grouped(8), {});
  EXPECT_GT(to_hnd.at("writes"), same.at("writes")) << "rows of one head of one token";
}

TEST_P(Sharding, TokensFirstOnBothSides) {
  run(grouped(8), {"--layout", "nhd", "--prefill-tp", "4", "--decode-tp", "2"});
}

TEST_P(Sharding, WindowsAndStates) { run(hybrid(), {}); }

TEST_P(Sharding, WindowsAndStatesOverRanksAndStages) {
  run(hybrid(),
      {"--prefill-tp", "2", "--pp", "2", "--decode-tp", "4", "--page-tokens-decode", "32"});
}

TEST_P(Sharding, DraftLayersWithContext) {
  json config = latent();
  config["num_nextn_predict_layers"] = 1;
  const json summary =
      run(config, {"--prefill-tp", "2", "--pp", "2", "--decode-dp", "2", "--requests", "12"});
  const std::uint64_t tokens = summary.at("prompt_tokens").get<std::uint64_t>() - 12 -
                               summary.at("decode_cached_tokens").get<std::uint64_t>();
  EXPECT_EQ(summary.at("bytes"), tokens * 4 * 64 * 2 + 12 * 128 * 2) << "and 12 hidden states";
}

TEST_P(Sharding, ContextOfAnySize) { run(grouped(8), {"--context-bytes", "777"}); }

TEST_P(Sharding, EightDeviceGroupsUseAllTheirRails) {
  const json summary =
      run(grouped(8), {"--tp", "8", "--device-groups", "8", "--rails", "2", "--requests", "12"});
  EXPECT_EQ(summary.at("rails"), 16);
  EXPECT_EQ(summary.at("rails_used"), 16);
  EXPECT_LE(summary.at("rail_bytes_max_over_mean"), 1.5);
}

// Under a sanitizer starting the processes of a node takes longest: once is enough there, since the
// messengers' own tests have every sharding over both.
const std::vector<const char*> kProviders =
    kvrail::kSanitized ? std::vector{"tcp"} : std::vector{"tcp", "shm"};

INSTANTIATE_TEST_SUITE_P(OfThisHost, Sharding, testing::ValuesIn(kProviders),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mock_engine

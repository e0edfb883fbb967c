#include "support/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace mock_engine {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ModelFile : public testing::Test {
 protected:
  ModelFile() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("kvrail_config_") + test->name() + ".json");
  }
  ~ModelFile() override { std::filesystem::remove(path_); }

  kvrail::ModelShape read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_model_file(path_);
  }

  std::string error_of(const std::string& text) {
    try {
      read(text);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path path_;
};

const json kGrouped{{"model_type", "llama"},    {"num_hidden_layers", 30},
                    {"hidden_size", 576},       {"num_attention_heads", 9},
                    {"num_key_value_heads", 3}, {"torch_dtype", "bfloat16"},
                    {"vocab_size", 49152}};

TEST_F(ModelFile, GivesTheShapeOfGroupedQueryAttention) {
  const kvrail::ModelShape shape = read(kGrouped.dump());
  EXPECT_EQ(shape.name, "llama");
  EXPECT_EQ(shape.layers, 30u);
  EXPECT_EQ(shape.kv_heads, 3u);
  EXPECT_EQ(shape.head_size, 64u);
  EXPECT_EQ(shape.bytes_per_token_and_layer(), 768u);
}

TEST_F(ModelFile, PrefersTheHeadSizeThatIsGiven) {
  json config = kGrouped;
  config["head_dim"] = 128;
  config["torch_dtype"] = "float32";
  EXPECT_EQ(read(config.dump()).bytes_per_token_and_layer(), 2u * 3 * 128 * 4);
}

TEST_F(ModelFile, TakesAllHeadsWhereTheyAreNotGrouped) {
  json config = kGrouped;
  config.erase("num_key_value_heads");
  EXPECT_EQ(read(config.dump()).kv_heads, 9u);
}

TEST_F(ModelFile, GivesTheShapeOfLatentAttention) {
  json config = kGrouped;
  config["kv_lora_rank"] = 512;
  config["qk_rope_head_dim"] = 64;
  const kvrail::ModelShape shape = read(config.dump());
  EXPECT_TRUE(shape.is_latent());
  EXPECT_EQ(shape.bytes_per_token_and_layer(), 1152u);
}

TEST_F(ModelFile, LooksIntoTheTextPartOfAMultimodalModel) {
  EXPECT_EQ(read(json{{"text_config", kGrouped}}.dump()).layers, 30u);
}

TEST_F(ModelFile, NamesTheKeyThatIsMissing) {
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads"}) {
    json config = kGrouped;
    config.erase(key);
    const std::string error = error_of(config.dump());
    EXPECT_THAT(error, HasSubstr(std::string("\"") + key + "\" is missing"));
    EXPECT_THAT(error, HasSubstr(path_.string()));
  }
  json latent = kGrouped;
  latent["kv_lora_rank"] = 512;
  EXPECT_THAT(error_of(latent.dump()), HasSubstr("\"qk_rope_head_dim\" is missing"));
}

TEST_F(ModelFile, NamesTheValueThatIsOutOfRange) {
  for (const json& value : {json(0), json(-1), json(1.5), json("30"), json(1u << 30)}) {
    json config = kGrouped;
    config["num_hidden_layers"] = value;
    EXPECT_THAT(error_of(config.dump()),
                testing::ContainsRegex("\"num_hidden_layers\" is .* but must be"))
        << value;
  }
  json config = kGrouped;
  config["torch_dtype"] = "int3";
  EXPECT_THAT(error_of(config.dump()), HasSubstr("\"torch_dtype\" is \"int3\""));
}

TEST_F(ModelFile, NamesAFileThatHoldsSomethingElse) {
  EXPECT_THAT(error_of("<html>"), HasSubstr("is not JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of(R"({"text_config": 3})"), HasSubstr("\"text_config\" is 3"));
}

TEST(Models, AreBuiltInOrFiles) {
  EXPECT_EQ(find_model("SmolLM2-135M").kv_heads, 3u);
  EXPECT_EQ(find_model("DeepSeek-R1").latent_size, 576u);
  EXPECT_EQ(find_model("Llama-3-70B").layers, 80u);
  EXPECT_EQ(find_model("Qwen3-Coder-480B").layers, 62u);
  try {
    find_model("no-such-model");
    FAIL() << "a model that does not exist was found";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no-such-model"));
    EXPECT_THAT(error.what(), HasSubstr("SmolLM2-135M"));
    EXPECT_THAT(error.what(), HasSubstr("config.json"));
  }
}

}  // namespace
}  // namespace mock_engine

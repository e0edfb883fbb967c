#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/model_shape.h"
#include "layout/sample_configs.h"

namespace kvrail {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelShape shape_of(const json& config) { return model_shape_from_config(config.dump(), "it"); }

std::string refusal(const std::string& text) {
  try {
    model_shape_from_config(text, "it");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

// Of `config` with `changes` in the place of its fields; null takes one out.
std::string refusal_of(const char* config, const json& changes) {
  json changed = json::parse(config);
  changed.update(changes);
  return refusal(changed.dump());
}

std::uint64_t bytes_per_token(const ModelShape& shape) {
  return shape.layers * shape.bytes_per_token_and_layer();
}

std::size_t count(const ModelShape& shape, LayerKind kind) {
  return static_cast<std::size_t>(
      std::count(shape.layer_kinds.begin(), shape.layer_kinds.end(), kind));
}

TEST(ModelConfig, GivesTheBuiltInShapes) {
  EXPECT_EQ(model_shape_from_config(kLlama3Config, "Llama-3-70B"), find_model_shape("Llama-3-70B"));
  EXPECT_EQ(model_shape_from_config(kQwen3Config, "Qwen3-235B-A22B"),
            find_model_shape("Qwen3-235B"));
  EXPECT_EQ(model_shape_from_config(kGptOssConfig, "gpt-oss-120b"),
            find_model_shape("gpt-oss-120b"));
  EXPECT_EQ(model_shape_from_config(kQwen3NextConfig, "Qwen3-Next-80B-A3B"),
            find_model_shape("Qwen3-Next-80B"));
  ModelShape deepseek = model_shape_from_config(kDeepSeekR1Config, "DeepSeek-R1");
  EXPECT_EQ(deepseek.draft_layers, 1u);
  deepseek.draft_layers = 0;
  EXPECT_EQ(deepseek, find_model_shape("DeepSeek-R1"));
}

TEST(ModelConfig, GivesTheIndexerBesideTheLatent) {
  const ModelShape shape = model_shape_from_config(kDeepSeekV32Config, "DeepSeek-V3.2");
  EXPECT_EQ(shape.latent_size, 576u);
  EXPECT_EQ(shape.indexer_bytes, 132u);  // 128 of 8 bits and a scale
  EXPECT_EQ(bytes_per_token(shape), 61u * (1152 + 132));
}

TEST(ModelConfig, GivesTheWindowOfEveryLayer) {
  const ModelShape shape = model_shape_from_config(kMistralConfig, "Mistral-7B");
  EXPECT_EQ(shape.window_tokens, 4096u);
  EXPECT_EQ(count(shape, LayerKind::kWindow), 32u);
  EXPECT_EQ(shape.bytes_per_token_and_layer(), 4096u);
}

TEST(ModelConfig, TakesTheLanguagePartAndWhatItsClassSays) {
  const ModelShape shape = model_shape_from_config(kGemma3Config, "Gemma-3-12B");
  EXPECT_EQ(shape.layers, 48u);
  EXPECT_EQ(shape.head_size, 256u);
  EXPECT_EQ(shape.element_bytes, 2u);
  EXPECT_EQ(shape.window_tokens, 1024u);
  EXPECT_EQ(count(shape, LayerKind::kFull), 8u);
  for (const std::size_t layer : {5u, 11u, 47u}) {
    EXPECT_EQ(shape.layer_kinds[layer], LayerKind::kFull) << layer;
  }
}

TEST(ModelConfig, LeavesOutLayersWithoutACache) {
  const ModelShape shape = model_shape_from_config(kNemotronConfig, "Nemotron-3-Nano");
  EXPECT_EQ(shape.layers, 29u);
  EXPECT_EQ(count(shape, LayerKind::kState), 23u);
  // "MEMEM*" without the experts.
  EXPECT_EQ(shape.layer_kinds[2], LayerKind::kState);
  EXPECT_EQ(shape.layer_kinds[3], LayerKind::kFull);
  EXPECT_THAT(shape.states,
              ElementsAre(StateTensor{"ssm", 64, 64 * 128 * 4}, StateTensor{"conv_x", 64, 64 * 6},
                          StateTensor{"conv_b", 8, 128 * 6}, StateTensor{"conv_c", 8, 128 * 6}));
  EXPECT_EQ(shape.bytes_per_token_and_layer(), 2u * 2 * 128 * 2);
}

TEST(ModelConfig, TakesThePerLayerListOfMambaHybrids) {
  const ModelShape shape = shape_of({{"num_hidden_layers", 3},
                                     {"layer_types", {"mamba", "attention", "mamba"}},
                                     {"hidden_size", 1536},
                                     {"num_attention_heads", 12},
                                     {"num_key_value_heads", 4},
                                     {"mamba_n_heads", 48},
                                     {"mamba_d_head", 64},
                                     {"mamba_d_state", 128},
                                     {"mamba_n_groups", 1},
                                     {"mamba_d_conv", 4}});
  EXPECT_THAT(shape.layer_kinds,
              ElementsAre(LayerKind::kState, LayerKind::kFull, LayerKind::kState));
  EXPECT_EQ(shape.states[0], (StateTensor{"ssm", 48, 64 * 128 * 4}));
}

TEST(ModelConfig, TakesTheTypeOfRecurrentStatesThatIsNamed) {
  json config = json::parse(kQwen3NextConfig);
  config["mamba_ssm_dtype"] = "bfloat16";
  config["torch_dtype"] = "float32";
  const ModelShape shape = shape_of(config);
  EXPECT_EQ(shape.states[0].head_bytes, 128u * 128 * 2);
  EXPECT_EQ(shape.states[1].head_bytes, 128u * 3 * 4);
}

TEST(ModelConfig, TakesDefaultsOfGenericFields) {
  const ModelShape shape = shape_of({{"model_type", "never_heard_of"},
                                     {"num_hidden_layers", 12},
                                     {"hidden_size", 768},
                                     {"num_attention_heads", 12}});
  EXPECT_EQ(shape.kv_heads, 12u);
  EXPECT_EQ(shape.head_size, 64u);
  EXPECT_EQ(shape.element_bytes, 2u);
  EXPECT_EQ(shape.vocabulary, 0u);
  EXPECT_TRUE(shape.layer_kinds.empty());
  EXPECT_EQ(shape.name, "it");
}

TEST(ModelConfig, KnowsTypesOfElements) {
  const auto bytes = [](const char* field, const char* type) {
    json config = json::parse(kQwen3Config);
    config.erase("torch_dtype");
    config[field] = type;
    return shape_of(config).element_bytes;
  };
  EXPECT_EQ(bytes("dtype", "bfloat16"), 2u);
  EXPECT_EQ(bytes("torch_dtype", "torch.float16"), 2u);
  EXPECT_EQ(bytes("torch_dtype", "float32"), 4u);
  EXPECT_EQ(bytes("dtype", "float8_e4m3fn"), 1u);
  EXPECT_THAT(refusal_of(kQwen3Config, {{"torch_dtype", "int3"}}),
              HasSubstr("\"torch_dtype\" is \"int3\", but must be float32"));
  EXPECT_THAT(refusal_of(kQwen3Config, {{"torch_dtype", 2}}),
              HasSubstr("\"torch_dtype\" is 2, but must be a text"));
}

TEST(ModelConfig, KnowsWindowsThatAreNotUsed) {
  json config = json::parse(kQwen3Config);
  config["sliding_window"] = 4096;
  EXPECT_TRUE(shape_of(config).layer_kinds.empty());
  config.erase("use_sliding_window");
  EXPECT_TRUE(shape_of(config).layer_kinds.empty());
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 90;
  const ModelShape shape = shape_of(config);
  EXPECT_EQ(count(shape, LayerKind::kWindow), 4u);
  EXPECT_EQ(shape.layer_kinds[89], LayerKind::kFull);
  EXPECT_EQ(shape.layer_kinds[90], LayerKind::kWindow);
  config["max_window_layers"] = 1000;
  EXPECT_TRUE(shape_of(config).layer_kinds.empty());
  EXPECT_EQ(shape_of(config).window_tokens, 0u);
  json mistral = json::parse(kMistralConfig);
  for (const json& none : {json(nullptr), json(0)}) {
    mistral["sliding_window"] = none;
    EXPECT_TRUE(shape_of(mistral).layer_kinds.empty());
  }
}

TEST(ModelConfig, TakesTheIntervalOfFullLayers) {
  json config = json::parse(kMistralConfig);
  for (const char* field : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    config[field] = 4;
    const ModelShape shape = shape_of(config);
    EXPECT_EQ(count(shape, LayerKind::kFull), 8u);
    EXPECT_EQ(shape.layer_kinds[3], LayerKind::kFull);
    config[field] = 1u << 24;
    EXPECT_EQ(count(shape_of(config), LayerKind::kFull), 0u);
    config.erase(field);
  }
}

TEST(ModelConfig, TakesChunksForWindows) {
  json config = json::parse(kLlama3Config);
  config["num_hidden_layers"] = 2;
  config["layer_types"] = {"chunked_attention", "full_attention"};
  config["attention_chunk_size"] = 8192;
  EXPECT_EQ(shape_of(config).window_tokens, 8192u);
  config["layer_types"] = {"chunked_attention", "sliding_attention"};
  EXPECT_THAT(refusal(config.dump()), HasSubstr("has both chunked_attention and sliding"));
}

TEST(ModelConfig, LeavesOutLayersThatUseTheCacheOfOthers) {
  json config = json::parse(kGptOssConfig);
  config["num_kv_shared_layers"] = 6;
  EXPECT_EQ(shape_of(config).layers, 30u);
  EXPECT_THAT(refusal_of(kGptOssConfig, {{"num_kv_shared_layers", 36}}),
              HasSubstr("\"num_kv_shared_layers\" is 36, but must be a whole number from 0 to 35"));
}

TEST(ModelConfig, NamesWhatIsMissing) {
  for (const char* field : {"num_hidden_layers", "hidden_size"}) {
    EXPECT_THAT(refusal_of(kLlama3Config, {{field, nullptr}}),
                AllOf(HasSubstr("the configuration of it cannot be used"),
                      HasSubstr(std::string("\"") + field + "\" is missing")));
  }
  EXPECT_THAT(refusal_of(kLlama3Config, {{"num_attention_heads", nullptr}}),
              HasSubstr("\"num_attention_heads\" is missing"));
  EXPECT_THAT(refusal_of(kDeepSeekR1Config, {{"qk_rope_head_dim", nullptr}}),
              HasSubstr("\"qk_rope_head_dim\" is missing"));
  EXPECT_THAT(refusal_of(kNemotronConfig, {{"mamba_num_heads", nullptr}}),
              HasSubstr("\"mamba_num_heads\" or \"mamba_n_heads\" is missing"));
  EXPECT_THAT(refusal_of(kGptOssConfig, {{"sliding_window", nullptr}}),
              HasSubstr("\"sliding_window\" is missing"));
  json gemma = json::parse(kGemma3Config);
  gemma["text_config"].erase("num_key_value_heads");
  EXPECT_THAT(refusal(gemma.dump()), HasSubstr("\"text_config.num_key_value_heads\" is missing"));
}

TEST(ModelConfig, NamesValuesOutOfRange) {
  const std::vector<json> wrong = {json(0),
                                   json(-1),
                                   json(1.5),
                                   json(2.0),
                                   json("30"),
                                   json(1u << 25),
                                   json(UINT64_MAX),
                                   json(1e300),
                                   json(true),
                                   json::array({30}),
                                   json::object({{"a", 1}})};
  for (const char* field : {"num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads",
                            "num_key_value_heads", "head_dim"}) {
    for (const json& value : wrong) {
      json config = json::parse(kLlama3Config);
      if (std::string(field) == "num_attention_heads") config.erase("num_key_value_heads");
      config[field] = value;
      EXPECT_THAT(refusal(config.dump()),
                  AllOf(HasSubstr(std::string("\"") + field + "\" is "),
                        HasSubstr(", but must be a whole number from 1 to ")))
          << value;
    }
  }
  EXPECT_THAT(refusal_of(kLlama3Config, {{"num_hidden_layers", 4097}}),
              HasSubstr("is 4097, but must be a whole number from 1 to 4096"));
  EXPECT_THAT(refusal_of(kQwen3Config, {{"use_sliding_window", "no"}}),
              HasSubstr("\"use_sliding_window\" is \"no\", but must be true or false"));
  EXPECT_THAT(refusal_of(kQwen3NextConfig, {{"linear_conv_kernel_dim", 1}}),
              HasSubstr("\"linear_conv_kernel_dim\" is 1, but must be a whole number from 2"));
  EXPECT_THAT(refusal_of(kDeepSeekV32Config, {{"index_head_dim", 100}}),
              HasSubstr("\"index_head_dim\" is 100, but must be a multiple of 128"));
  EXPECT_THAT(refusal_of(kQwen3NextConfig, {{"linear_key_head_dim", 1u << 24}}),
              HasSubstr("the state \"recurrent\" has more than 4294967295 bytes"));
}

TEST(ModelConfig, NamesListsThatDoNotFit) {
  EXPECT_THAT(refusal_of(kGptOssConfig, {{"num_hidden_layers", 35}}),
              HasSubstr("\"layer_types\" has 36 entries, but \"num_hidden_layers\" is 35"));
  EXPECT_THAT(refusal_of(kNemotronConfig, {{"hybrid_override_pattern", "M*"}}),
              HasSubstr("\"hybrid_override_pattern\" has 2 entries"));
  json config = json::parse(kGptOssConfig);
  config["layer_types"][7] = "conv";
  EXPECT_THAT(
      refusal(config.dump()),
      HasSubstr("\"layer_types\" says \"conv\" of layer 7, but known are full_attention, "));
  config["layer_types"][7] = 1;
  EXPECT_THAT(refusal(config.dump()), HasSubstr("entry 7 of \"layer_types\" is 1"));
  EXPECT_THAT(refusal_of(kGptOssConfig, {{"layer_types", "full_attention"}}),
              HasSubstr("\"layer_types\" is \"full_attention\", but must be a list of texts"));
  json letters = json::parse(kNemotronConfig);
  letters["hybrid_override_pattern"] = std::string(51, 'M') + "x";
  EXPECT_THAT(refusal(letters.dump()), HasSubstr("says \"x\" of layer 51, but known are *, M, -"));
  letters["hybrid_override_pattern"] = std::string(52, 'E');
  EXPECT_THAT(refusal(letters.dump()), HasSubstr("no layer keeps anything"));
}

TEST(ModelConfig, NamesContradictions) {
  EXPECT_THAT(refusal_of(kGptOssConfig, {{"use_sliding_window", false}}),
              HasSubstr("\"layer_types\" has sliding_attention, but \"use_sliding_window\" is"));
  EXPECT_THAT(refusal_of(kLlama3Config, {{"num_attention_heads", 63}}),
              HasSubstr("\"head_dim\" is missing, and \"hidden_size\" 8192 is no multiple of"));
  EXPECT_THAT(refusal_of(kLlama3Config, {{"v_head_dim", 64}}),
              HasSubstr("\"v_head_dim\" is 64, but heads of K have 128 elements"));
  EXPECT_THAT(refusal_of(kQwen3NextConfig, {{"full_attention_interval", nullptr}}),
              HasSubstr("\"linear_num_value_heads\" says that layers keep a state, but none of"));
  json both = json::parse(kQwen3NextConfig);
  both["num_hidden_layers"] = 2;
  both["layer_types"] = {"mamba", "linear_attention"};
  EXPECT_THAT(refusal(both.dump()), HasSubstr("states of one kind only"));
}

TEST(ModelConfig, RefusesCachesOfOtherKinds) {
  EXPECT_THAT(refusal_of(kDeepSeekR1Config, {{"linear_attn_config", {{"num_heads", 32}}}}),
              HasSubstr("\"linear_attn_config\" describes a cache that is not understood here"));
  EXPECT_THAT(refusal_of(kDeepSeekV32Config, {{"compress_ratios", {0, 4, 128}}}),
              HasSubstr("\"compress_ratios\" describes"));
  EXPECT_EQ(refusal_of(kDeepSeekV32Config, {{"compress_ratios", json::array()}}), "accepted");
  EXPECT_THAT(refusal_of(kDeepSeekV32Config, {{"index_topk_freq", 4}}),
              HasSubstr("share the indexer"));
  EXPECT_THAT(refusal_of(kDeepSeekV32Config, {{"indexer_types", {"full", "shared"}}}),
              HasSubstr("share the indexer"));
  EXPECT_THAT(refusal_of(kLlama3Config, {{"num_key_value_heads", nullptr}, {"multi_query", true}}),
              HasSubstr("\"multi_query\" is given"));
  EXPECT_EQ(refusal_of(kLlama3Config, {{"multi_query", false}}), "accepted");
}

TEST(ModelConfig, RefusesOtherTexts) {
  EXPECT_THAT(refusal(""), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("<html>"), HasSubstr("it is not JSON: wrong at byte 1"));
  EXPECT_THAT(refusal(std::string(kLlama3Config) + "}"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("\"\xff\""), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{\"hidden_size\": 1e999}"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("it is not a JSON object, but a list"));
  EXPECT_THAT(refusal("\"" + std::string(1000, 'x') + "\""),
              AllOf(HasSubstr("not a JSON object, but \"xxx"), HasSubstr("xxx...")));
  EXPECT_THAT(refusal("{\"text_config\": 3}"), HasSubstr("\"text_config\" is 3, but must be an"));
}

// None of them may take the stack or the memory away.
TEST(ModelConfig, RefusesTextsThatAreTooDeepOrTooLong) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string nested;
    for (int i = 0; i < 500'000; ++i) nested += open;
    EXPECT_THAT(refusal(nested), HasSubstr("nested more than 32 deep")) << open;
  }
  EXPECT_THAT(refusal(std::string((4u << 20) + 1, ' ')),
              HasSubstr("it has 4194305 bytes, but at most 4194304 are read"));
}

}  // namespace
}  // namespace kvrail

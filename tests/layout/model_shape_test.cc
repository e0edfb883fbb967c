#include "kvrail/model_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kvrail/error.h"

namespace kvrail {
namespace {

using ::testing::HasSubstr;

TEST(ModelShapes, AreFoundInAnyCase) {
  EXPECT_EQ(find_model_shape("llama-3-70b").layers, 80u);
  EXPECT_EQ(find_model_shape("Qwen3-Coder-480B").name, "Qwen3-Coder-480B-A35B");
  EXPECT_EQ(find_model_shape("qwen3-coder-480b-a35b").hidden_size, 6144u);
  EXPECT_EQ(find_model_shape("Qwen3-235B").kv_heads, 4u);
  EXPECT_EQ(find_model_shape("DEEPSEEK-R1").latent_size, 576u);
  EXPECT_EQ(find_model_shape("SmolLM2-135M").head_size, 64u);
  EXPECT_EQ(find_model_shape("GPT-OSS-120B").window_tokens, 128u);
  EXPECT_EQ(find_model_shape("qwen3-next-80b").states.size(), 4u);
}

TEST(ModelShapes, HaveTheirPublishedSizes) {
  const auto bytes_per_token = [](const char* name) {
    const ModelShape& shape = find_model_shape(name);
    return shape.layers * shape.bytes_per_token_and_layer();
  };
  EXPECT_EQ(bytes_per_token("Llama-3-70B"), 327680u);
  EXPECT_EQ(bytes_per_token("Qwen3-Coder-480B-A35B"), 253952u);
  EXPECT_EQ(bytes_per_token("Qwen3-235B-A22B"), 192512u);
  EXPECT_EQ(bytes_per_token("DeepSeek-R1"), 70272u);
  EXPECT_EQ(bytes_per_token("SmolLM2-135M"), 23040u);
  EXPECT_EQ(bytes_per_token("gpt-oss-120b"), 36u * 2 * 8 * 64 * 2);
  EXPECT_EQ(find_model_shape("Qwen3-Next-80B").bytes_per_token_and_layer(), 2u * 2 * 256 * 2);
}

TEST(ModelShapes, SayWhatTheLayersOfHybridsKeep) {
  const auto count = [](const char* name, LayerKind kind) {
    const auto& kinds = find_model_shape(name).layer_kinds;
    return std::count(kinds.begin(), kinds.end(), kind);
  };
  EXPECT_EQ(count("gpt-oss-120b", LayerKind::kWindow), 18);
  EXPECT_EQ(count("gpt-oss-120b", LayerKind::kFull), 18);
  EXPECT_EQ(count("Qwen3-Next-80B", LayerKind::kState), 36);
  EXPECT_EQ(count("Qwen3-Next-80B", LayerKind::kFull), 12);
}

TEST(ModelShapes, NamesTheKnownOnes) {
  try {
    find_model_shape("gpt-2");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("\"gpt-2\"; known are Llama-3-70B, Qwen3-Coder"));
  }
}

}  // namespace
}  // namespace kvrail

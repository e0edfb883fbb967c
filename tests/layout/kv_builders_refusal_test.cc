#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "kvrail/error.h"
#include "kvrail/kv_builders.h"
#include "layout/small_hybrid.h"

namespace kvrail {
namespace {

using ::testing::HasSubstr;

std::string refusal_after(const std::function<void(KvCacheOptions&)>& change) {
  KvCacheOptions options = small_hybrid();
  change(options);
  try {
    layout_of(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(KvBuildersRefuse, ParallelismThatDoesNotFit) {
  EXPECT_EQ(refusal_after([](auto&) {}), "accepted");
  EXPECT_THAT(refusal_after([](auto& o) { o.tensor_parallel = 3; }),
              HasSubstr("tensor_parallel is 3, but small has 4 heads of \"k\"; one number must"));
  EXPECT_THAT(refusal_after([](auto& o) {
                o.tensor_parallel = 4;
                o.model.states[1].heads = 6;
              }),
              HasSubstr("small has 6 heads of \"conv\""));
  EXPECT_THAT(refusal_after([](auto& o) { o.tensor_parallel = 0; }),
              HasSubstr("tensor_parallel is 0, but must be 1 to 1024"));
  EXPECT_THAT(refusal_after([](auto& o) { o.pipeline_parallel = 0; }),
              HasSubstr("pipeline_parallel is 0"));
  EXPECT_THAT(refusal_after([](auto& o) { o.pipeline_parallel = 4; }),
              HasSubstr("pipeline_parallel is 4, but small has 3 layers"));
  EXPECT_THAT(refusal_after([](auto& o) { o.context_parallel = 2048; }),
              HasSubstr("context_parallel is 2048"));
  EXPECT_THAT(refusal_after([](auto& o) { o.data_parallel = 0; }), HasSubstr("data_parallel is 0"));
  EXPECT_THAT(refusal_after([](auto& o) { o.cp_interleave_tokens = 0; }),
              HasSubstr("cp_interleave_tokens is 0"));
  EXPECT_THAT(refusal_after([](auto& o) {
                o.context_parallel = 64;
                o.data_parallel = 32;
              }),
              HasSubstr("context_parallel 64 x data_parallel 32 are more than 1024 ranks"));
  EXPECT_THAT(refusal_after([](auto& o) {
                o.model.layers = 4096 - 1;
                o.model.layer_kinds.clear();
                o.data_parallel = 512;
              }),
              HasSubstr("4194304 tensors of layers, but at most 1048576 are served"));
  EXPECT_THROW(make_kv_layout(small_options(), {}), Error);
  EXPECT_THROW(kv_bytes(small_options(), RankIndex{1}), Error);
  EXPECT_THROW(region_bytes(small_options(), RankIndex{1}), Error);
  EXPECT_THROW(context_rank(small_options(), DpRank{1}), Error);
}

TEST(KvBuildersRefuse, ModelsThatFitNoCache) {
  EXPECT_THAT(refusal_after([](auto& o) { o.model.head_size = 0; }),
              HasSubstr("a head of small has 0 bytes"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.kv_heads = 0; }),
              HasSubstr("small has 0 KV heads; set kv_heads, or latent_size"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.layers = 5000; }),
              HasSubstr("small has 5000 layers and 1 draft layers"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.draft_layers = UINT32_MAX; }),
              HasSubstr("and 4294967295 draft layers"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.layers = 0; }), HasSubstr("small has 0 layers"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.layer_kinds.pop_back(); }),
              HasSubstr("layer_kinds of small has 2 entries for 3 layers"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.layer_kinds[1] = static_cast<LayerKind>(9); }),
              HasSubstr("layer_kinds[1] of small is 9"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.window_tokens = 0; }),
              HasSubstr("window_tokens of small is 0"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.states.clear(); }),
              HasSubstr("layers that keep a state, but no states"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.states.resize(65); }),
              HasSubstr("small has 65 states"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.states[0].heads = 0; }),
              HasSubstr("state \"recurrent\" of small has 0 heads of 64 bytes"));
  EXPECT_THAT(refusal_after([](auto& o) { o.model.states[1].head_bytes = 0; }),
              HasSubstr("state \"conv\" of small has 4 heads of 0 bytes"));
}

TEST(KvBuildersRefuse, SizesThatFitNoCache) {
  EXPECT_THAT(refusal_after([](auto& o) { o.page_count = 0; }), HasSubstr("page_count is 0"));
  EXPECT_THAT(refusal_after([](auto& o) { o.state_count = 0; }), HasSubstr("state_count is 0"));
  EXPECT_THAT(refusal_after([](auto& o) { o.page_tokens = 0; }),
              HasSubstr("page_tokens is 0, but must be 1 to 65536"));
  EXPECT_THAT(refusal_after([](auto& o) {
                o.context_slots = 1;
                o.model.hidden_size = 0;
              }),
              HasSubstr("context_slot_bytes is 0"));
  EXPECT_THAT(refusal_after([](auto& o) {
                o.page_count = UINT32_MAX;
                o.page_tokens = 65536;
                o.model.head_size = 65536;
              }),
              HasSubstr("exceeds 64 bits"));
  // Where each group fits and their sum does not.
  EXPECT_THAT(refusal_after([](auto& o) {
                o.page_count = 1u << 31;
                o.page_tokens = 65536;
                o.model.head_size = 8192;
              }),
              HasSubstr("exceeds 64 bits"));
  EXPECT_THAT(refusal_after([](auto& o) {
                o.context_slots = UINT32_MAX;
                o.context_slot_bytes = UINT64_MAX - 128;
              }),
              HasSubstr("exceeds 64 bits"));
}

}  // namespace
}  // namespace kvrail

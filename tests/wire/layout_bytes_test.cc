#include "kvrail/layout_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/kv_builders.h"
#include "wire/layout_codec.h"

namespace kvrail {
namespace {

using ::testing::HasSubstr;

// With all that a layout can say.
KvLayout hybrid_layout() {
  KvCacheOptions options;
  options.model = find_model_shape("Llama-3-70B");
  options.model.layers = 6;
  options.model.window_tokens = 100;
  options.model.layer_kinds = {LayerKind::kFull,  LayerKind::kWindow, LayerKind::kState,
                               LayerKind::kState, LayerKind::kWindow, LayerKind::kFull};
  options.model.states = {{"ssm", 8, 96}, {"conv", 8, 12}};
  options.model.draft_layers = 1;
  options.tensor_parallel = 2;
  options.pipeline_parallel = 2;
  options.context_parallel = 2;
  options.cp_interleave_tokens = 4;
  options.data_parallel = 2;
  options.page_count = 10;
  options.state_count = 3;
  options.context_slots = 2;
  std::vector<RankMemory> memory;
  for (std::uint32_t r = 0; r < rank_count(options); ++r) {
    memory.push_back({RegionId{100 + r}, DeviceGroupId{static_cast<std::uint16_t>(r % 3)}});
  }
  KvLayout layout = make_kv_layout(options, memory);
  for (RankLayout& rank : layout.ranks) {
    for (TensorPlacement& placement : rank.groups[0].placements) {
      placement.token_stride_bytes = 256;
      placement.head_stride_bytes = 256 * layout.groups[0].page_tokens;
    }
  }
  return layout;
}

Error error_of(std::span<const std::byte> bytes) {
  try {
    layout_from_bytes(bytes);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kOk, "accepted"};
}

TEST(LayoutBytes, GiveBackTheLayout) {
  const KvLayout layout = hybrid_layout();
  const auto bytes = to_bytes(layout);
  EXPECT_EQ(layout_from_bytes(bytes), layout);
  // At any address.
  std::vector<std::byte> moved(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), moved.begin() + 1);
  EXPECT_EQ(layout_from_bytes(std::span(moved).subspan(1)), layout);
}

TEST(LayoutBytes, RefuseWhatIsNone) {
  EXPECT_EQ(error_of({}).code(), ErrorCode::kMalformed);
  const std::string text = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
  EXPECT_EQ(error_of(std::as_bytes(std::span(text))).code(), ErrorCode::kMalformed);
  const auto bytes = to_bytes(hybrid_layout());
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 16) {
    EXPECT_EQ(error_of(std::span(bytes).first(size)).code(), ErrorCode::kMalformed) << size;
  }
}

TEST(LayoutBytes, AreCheckedWholly) {
  const auto bytes = to_bytes(hybrid_layout());
  int accepted = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto changed = bytes;
    changed[i] ^= std::byte{1};
    const Error error = error_of(changed);
    EXPECT_THAT(error.code(),
                ::testing::AnyOf(ErrorCode::kOk, ErrorCode::kMalformed, ErrorCode::kVersionMismatch,
                                 ErrorCode::kInvalidArgument))
        << "byte " << i << ": " << error.what();
    accepted += error.code() == ErrorCode::kOk ? 1 : 0;
  }
  // Names, pool sizes and bases may be others.
  EXPECT_LT(accepted, static_cast<int>(bytes.size()) / 2);
}

// Sums and products of what they say do not wrap around on the way.
TEST(LayoutBytes, MayHoldTheLargestNumberAnywhere) {
  const auto bytes = to_bytes(hybrid_layout());
  for (const std::size_t size : {sizeof(std::uint32_t), sizeof(std::uint64_t)}) {
    for (std::size_t i = 0; i + size <= bytes.size(); i += sizeof(std::uint32_t)) {
      auto changed = bytes;
      std::fill_n(changed.begin() + static_cast<std::ptrdiff_t>(i), size, std::byte{0xff});
      EXPECT_THAT(error_of(changed).code(),
                  ::testing::AnyOf(ErrorCode::kOk, ErrorCode::kMalformed,
                                   ErrorCode::kVersionMismatch, ErrorCode::kInvalidArgument))
          << size << " bytes from " << i << " on";
    }
  }
}

TEST(LayoutBytes, OfAnotherVersionAreToldApart) {
  auto bytes = to_bytes(hybrid_layout());
  ASSERT_EQ(bytes[7], std::byte{'1'});
  bytes[7] = std::byte{'2'};
  const Error error = error_of(bytes);
  EXPECT_EQ(error.code(), ErrorCode::kVersionMismatch);
  EXPECT_THAT(error.what(), HasSubstr("KVL1"));
}

TEST(LayoutBytes, RefuseLayoutsThatAreNotValid) {
  KvLayout layout = hybrid_layout();
  layout.groups[0].page_count = 0;
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(write_layout(builder, layout), "KVL1");
  const Error error =
      error_of(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())));
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("groups[0].page_count is 0"));
}

TEST(LayoutBytes, AreNotMadeOfLayoutsThatAreNotValid) {
  KvLayout layout = hybrid_layout();
  layout.ranks.resize(kMaxRanks + 1);
  EXPECT_THROW(to_bytes(layout), Error);
  layout = hybrid_layout();
  layout.groups[0].kind = static_cast<CacheKind>(2);
  EXPECT_THROW(to_bytes(layout), Error);
}

// A known model: bytes per placement, and little else.
TEST(LayoutBytes, AreFew) {
  KvCacheOptions options;
  options.model = find_model_shape("Qwen3-Coder-480B-A35B");
  options.tensor_parallel = 8;
  options.page_count = 1;
  std::vector<RankMemory> memory(8);
  for (std::uint32_t r = 0; r < 8; ++r) memory[r].region = RegionId{r};
  const KvLayout layout = make_kv_layout(options, memory);
  std::size_t placements = 0;
  for (const RankLayout& rank : layout.ranks) placements += rank.groups[0].placements.size();
  EXPECT_EQ(placements, std::size_t{8} * options.model.layers * 2);
  const std::size_t size = to_bytes(layout).size();
  RecordProperty("bytes", static_cast<int>(size));
  EXPECT_LT(size, placements * 48 + 4096);
}

}  // namespace
}  // namespace kvrail

#include "wire/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "wire/message_limits.h"
#include "wire/sample_messages.h"

namespace kvrail {
namespace {

using testing::HasSubstr;

// Every kind of message.
class CodecTest : public testing::TestWithParam<std::size_t> {
 protected:
  // The same content on every run, another for every kind.
  Random random_{GetParam() + 1};
};

INSTANTIATE_TEST_SUITE_P(Kinds, CodecTest, testing::Range(std::size_t{0}, kMessageKinds));

// Decodes what may be broken: a message, or kMalformed with a text, and nothing else. True if it
// decodes.
bool decodes_or_is_refused(std::span<const std::byte> bytes) {
  try {
    const Message message = decode(bytes);
    // What decodes is worth sending on.
    EXPECT_EQ(decode(encode(message)), message);
    return true;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kMalformed) << e.what();
    EXPECT_THAT(e.what(), HasSubstr("message"));
    return false;
  }
}

TEST_P(CodecTest, RoundTripKeepsEveryField) {
  for (int i = 0; i < 200; ++i) {
    const Message message = sample_message(GetParam(), random_);
    ASSERT_EQ(message.index(), GetParam());
    const auto bytes = encode(message);
    ASSERT_GE(bytes.size(), kMinMessageBytes);
    ASSERT_EQ(decode(bytes), message) << name_of(message) << " " << i;
  }
}

TEST_P(CodecTest, BytesNeedNoAlignment) {
  const Message message = sample_message(GetParam(), random_);
  const auto bytes = encode(message);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> shifted(shift);
    shifted.insert(shifted.end(), bytes.begin(), bytes.end());
    ASSERT_EQ(decode(std::span(shifted).subspan(shift)), message);
  }
}

TEST_P(CodecTest, EveryTruncationIsRefused) {
  for (int i = 0; i < 5; ++i) {
    const auto bytes = encode(sample_message(GetParam(), random_));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      // A copy of just that size, so that a read beyond it is seen.
      const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + size);
      decodes_or_is_refused(cut);
    }
  }
}

TEST_P(CodecTest, FlippedBitsDecodeOrAreRefused) {
  int refused = 0;
  constexpr int kRounds = 3000;
  auto bytes = encode(sample_message(GetParam(), random_));
  for (int i = 0; i < kRounds; ++i) {
    if (i % 300 == 0) bytes = encode(sample_message(GetParam(), random_));
    auto broken = bytes;
    for (std::uint64_t flips = 1 + random_() % 4; flips > 0; --flips) {
      broken[random_() % broken.size()] ^= static_cast<std::byte>(1u << (random_() % 8));
    }
    if (!decodes_or_is_refused(broken)) ++refused;
  }
  EXPECT_GT(refused, 0);
}

TEST_P(CodecTest, OverwrittenWordsDecodeOrAreRefused) {
  const auto bytes = encode(sample_message(GetParam(), random_));
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    for (const std::uint32_t word : {0u, 1u, 4u, 0x7fffffffu, 0x80000000u, 0xfffffffcu, ~0u}) {
      auto broken = bytes;
      std::memcpy(broken.data() + at, &word, sizeof word);
      decodes_or_is_refused(broken);
    }
  }
}

TEST(CodecNamesTest, EveryKindHasItsOwn) {
  Random random(1);
  std::set<std::string_view> names;
  for (std::size_t kind = 0; kind < kMessageKinds; ++kind) {
    names.insert(name_of(sample_message(kind, random)));
  }
  EXPECT_EQ(names.size(), kMessageKinds);
  EXPECT_EQ(name_of(PrefillRequestMessage{}), "PrefillRequest");
  EXPECT_EQ(name_of(GoodbyeMessage{}), "Goodbye");
}

TEST(CodecCodesTest, EveryErrorCodeButOkTravels) {
  for (int i = 1; i <= static_cast<int>(ErrorCode::kShutDown); ++i) {
    const Message message =
        FailedMessage{.wire_id = 1, .code = static_cast<ErrorCode>(i), .reason = "", .posted = {}};
    EXPECT_EQ(decode(encode(message)), message) << i;
  }
  EXPECT_THROW(encode(FailedMessage{.code = ErrorCode::kOk, .reason = "", .posted = {}}), Error);
  EXPECT_THROW(encode(GoodbyeMessage{.code = ErrorCode::kOk, .reason = ""}), Error);
}

TEST(CodecSizeTest, LargeRequestsTravel) {
  Random random(7);
  PrefillRequestMessage message;
  message.prompt_tokens = 1'000'000;
  message.sent = {.first = 0, .end = 1'000'000};
  message.pages.by_group.resize(2, std::vector<PageIndex>(62'500));
  for (auto& table : message.pages.by_group) {
    for (PageIndex& page : table) page = PageIndex(static_cast<std::uint32_t>(random()));
  }
  message.payload.resize(4'000'000, std::byte{7});
  EXPECT_EQ(decode(encode(message)), Message(message));
}

TEST(CodecReasonTest, LongReasonsAreCutBetweenCharacters) {
  const std::string two_byte_characters = [] {
    std::string text = "x";
    while (text.size() < 2 * kMaxReasonBytes) text += "\xc3\xa9";
    return text;
  }();
  const Message message =
      decode(encode(CancelMessage{.wire_id = 1, .reason = two_byte_characters}));
  const auto& reason = std::get<CancelMessage>(message).reason;
  EXPECT_EQ(reason.size(), kMaxReasonBytes - 1);
  EXPECT_EQ(reason, two_byte_characters.substr(0, reason.size()));
}

}  // namespace
}  // namespace kvrail

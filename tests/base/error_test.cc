#include "kvrail/error.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace kvrail {
namespace {

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  const int last = static_cast<int>(ErrorCode::kShutDown);
  for (int code = 0; code <= last; ++code) {
    const auto name = to_string(static_cast<ErrorCode>(code));
    EXPECT_FALSE(name.empty());
    EXPECT_NE(name, "unknown") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(to_string(ErrorCode::kPeerLost), "peer_lost");
  EXPECT_EQ(to_string(static_cast<ErrorCode>(10'000)), "unknown");
}

TEST(Error, CarriesItsCodeAndText) {
  try {
    throw Error(ErrorCode::kLimit, "raise it");
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "raise it");
    EXPECT_EQ(dynamic_cast<const Error&>(error).code(), ErrorCode::kLimit);
  }
}

TEST(Status, IsSuccessUnlessItSaysOtherwise) {
  const Status good;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.code(), ErrorCode::kOk);
  EXPECT_EQ(good.text(), "");
  const Status bad(ErrorCode::kQueueFull, "full");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.code(), ErrorCode::kQueueFull);
  EXPECT_EQ(bad.text(), "full");
}

}  // namespace
}  // namespace kvrail

#include "wire/token_bucket.h"

#include <gtest/gtest.h>

namespace kvrail {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kStart = 5'000'000'000'000;

int taken(TokenBucket& bucket, std::int64_t now_ns) {
  int count = 0;
  while (count < 1000 && bucket.take(now_ns) == 0) ++count;
  return count;
}

TEST(TokenBucketTest, GivesABurstAndThenAtItsRate) {
  TokenBucket bucket(100, 25);
  EXPECT_EQ(taken(bucket, kStart), 25);
  EXPECT_EQ(bucket.take(kStart), 10 * kMs);
  EXPECT_EQ(bucket.take(kStart + 4 * kMs), 6 * kMs);
  EXPECT_EQ(taken(bucket, kStart + 10 * kMs), 1);
  EXPECT_EQ(taken(bucket, kStart + 60 * kMs), 5);
}

TEST(TokenBucketTest, FillsUpAndNotBeyond) {
  TokenBucket bucket(100, 25);
  EXPECT_EQ(taken(bucket, kStart), 25);
  EXPECT_EQ(taken(bucket, kStart + 100 * kMs), 10);
  EXPECT_EQ(taken(bucket, kStart + 100'000 * kMs), 25);
}

TEST(TokenBucketTest, WaitingAsLongAsItSaysIsEnough) {
  TokenBucket bucket(3, 1);
  std::int64_t now = kStart;
  ASSERT_EQ(bucket.take(now), 0);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t wait = bucket.take(now);
    ASSERT_GT(wait, 0) << i;
    now += wait;
    ASSERT_EQ(bucket.take(now), 0) << i;
  }
}

TEST(TokenBucketTest, ZeroIsNoLimit) {
  TokenBucket bucket(0, 0);
  EXPECT_EQ(taken(bucket, kStart), 1000);
}

}  // namespace
}  // namespace kvrail

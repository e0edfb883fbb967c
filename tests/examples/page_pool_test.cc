#include "support/page_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace mock_engine {
namespace {

using kvrail::PageIndex;

TEST(PagePool, HandsOutEveryPageOnceAndNoneWhenTooFewAreLeft) {
  PagePool pool(8);
  const auto some = pool.allocate(5);
  ASSERT_TRUE(some);
  EXPECT_FALSE(pool.allocate(4));
  EXPECT_EQ(pool.available(), 3u);
  const auto rest = pool.allocate(3);
  ASSERT_TRUE(rest);
  std::set<PageIndex> all(some->begin(), some->end());
  all.insert(rest->begin(), rest->end());
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(pool.available(), 0u);
  pool.release(*some);
  pool.release(*rest);
  EXPECT_EQ(pool.available(), 8u);
  EXPECT_TRUE(pool.allocate(8));
}

TEST(PagePool, RefusesToReleaseAFreePage) {
  PagePool pool(2);
  const auto pages = pool.allocate(1);
  pool.release(*pages);
  EXPECT_THROW(pool.release(*pages), std::logic_error);
  EXPECT_EQ(pool.available(), 2u);
}

TEST(PagePool, SharesAPublishedPageUntilItsLastUserLeaves) {
  PagePool pool(1);
  const auto pages = pool.allocate(1);
  EXPECT_TRUE(pool.publish(pages->front(), 7));
  const auto found = pool.find(7);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, pages->front());
  pool.release(*pages);
  EXPECT_EQ(pool.available(), 0u) << "the second user still reads it";
  pool.release(std::vector{*found});
  EXPECT_EQ(pool.available(), 1u);
  EXPECT_FALSE(pool.is_free(*found)) << "its content can still be found";
  EXPECT_TRUE(pool.find(7));
}

TEST(PagePool, KeepsOnePagePerKey) {
  PagePool pool(2);
  const auto pages = pool.allocate(2);
  EXPECT_TRUE(pool.publish((*pages)[0], 7));
  EXPECT_FALSE(pool.publish((*pages)[1], 7));
  EXPECT_FALSE(pool.publish((*pages)[0], 8));
  pool.release(*pages);
  EXPECT_TRUE(pool.is_free((*pages)[1]));
  EXPECT_FALSE(pool.find(8));
}

TEST(PagePool, GivesUpThePublishedPageThatWasUnusedForLongest) {
  PagePool pool(3);
  const auto pages = pool.allocate(2);
  pool.publish((*pages)[0], 10);
  pool.publish((*pages)[1], 11);
  pool.release(std::vector{(*pages)[1]});
  pool.release(std::vector{(*pages)[0]});
  ASSERT_TRUE(pool.allocate(1));  // the one that was never used
  EXPECT_EQ(pool.available(), 2u);
  const auto evicted = pool.allocate(1);
  ASSERT_TRUE(evicted);
  EXPECT_EQ(evicted->front(), (*pages)[1]);
  EXPECT_FALSE(pool.find(11));
  EXPECT_TRUE(pool.find(10));
}

TEST(PagePool, PublishesOnlyPagesInUse) {
  PagePool pool(1);
  EXPECT_THROW(pool.publish(PageIndex(0), 1), std::logic_error);
}

TEST(PagePool, GivesOutACertainPageIfItIsFree) {
  PagePool pool(4);
  EXPECT_TRUE(pool.take_free(PageIndex(2)));
  EXPECT_FALSE(pool.take_free(PageIndex(2)));
  EXPECT_FALSE(pool.take_free(PageIndex(4))) << "there is none";
  EXPECT_EQ(pool.available(), 3u);
  const PageIndex page(2);
  pool.release({&page, 1});
  EXPECT_TRUE(pool.is_free(page));
}

}  // namespace
}  // namespace mock_engine

#include "wire/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "wire/network.h"

namespace kvrail {
namespace {

using Queue = FairQueue<std::string, int>;
using ::testing::ElementsAre;

std::vector<int> drain(Queue& queue) {
  std::vector<int> items;
  while (!queue.empty()) items.push_back(queue.pop());
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(queue.source_count(), 0u);
  return items;
}

TEST(FairQueueTest, SourcesAreServedInTurn) {
  Queue queue(100);
  for (int i = 1; i <= 4; ++i) queue.push("a", i);
  for (int i = 11; i <= 12; ++i) queue.push("b", i);
  EXPECT_EQ(queue.pop(), 1);
  queue.push("c", 21);
  EXPECT_EQ(queue.source_count(), 3u);
  EXPECT_THAT(drain(queue), ElementsAre(11, 2, 21, 12, 3, 4));
}

TEST(FairQueueTest, WhoHasMostMakesRoom) {
  Queue queue(4);
  for (int i = 1; i <= 4; ++i) EXPECT_FALSE(queue.push("a", i));
  EXPECT_EQ(queue.push("a", 5), 5);
  EXPECT_EQ(queue.push("b", 11), 4);
  EXPECT_EQ(queue.push("b", 12), 3);
  // Both have two: it is the turn of neither to make room for the other.
  EXPECT_EQ(queue.push("b", 13), 13);
  EXPECT_EQ(queue.push("a", 6), 6);
  EXPECT_EQ(queue.push("c", 21), 2);
  EXPECT_EQ(queue.push("d", 31), 12);
  EXPECT_EQ(queue.push("e", 41), 41);
  EXPECT_EQ(queue.source_count(), 4u) << "no more sources than items";
  EXPECT_THAT(drain(queue), ElementsAre(1, 11, 21, 31));
}

TEST(FairQueueTest, ItemsAreTakenOutOfTheMiddle) {
  Queue queue(100);
  for (int i = 1; i <= 3; ++i) {
    queue.push("a", i);
    queue.push("b", 10 + i);
    queue.push("c", 20 + i);
  }
  std::vector<int> before;
  std::vector<int> seen;
  queue.for_each([&](int item) { before.push_back(item); });
  queue.remove_if([&](int item) {
    seen.push_back(item);
    return item == 2 || item / 10 == 1;
  });
  EXPECT_EQ(before, seen);
  EXPECT_EQ(queue.size(), 5u);
  EXPECT_EQ(queue.source_count(), 2u);
  queue.push("b", 14);
  EXPECT_THAT(drain(queue), ElementsAre(1, 21, 14, 3, 22, 23));
}

TEST(FairQueueTest, HoldsWhatCannotBeCopied) {
  FairQueue<int, std::unique_ptr<int>> queue(1);
  queue.push(1, std::make_unique<int>(1));
  EXPECT_EQ(*queue.push(2, std::make_unique<int>(2)).value(), 2);
  queue.clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.push(1, std::make_unique<int>(3)));
}

SourceAddress source(const char* address) { return source_of(asio::ip::make_address(address)); }

TEST(SourceAddressTest, IsAnIpv4AddressOrTheNetworkOfAnIpv6One) {
  EXPECT_EQ(source("192.0.2.1"), source("::ffff:192.0.2.1"));
  EXPECT_NE(source("192.0.2.1"), source("192.0.2.2"));
  EXPECT_EQ(source("2001:db8:0:1::1"), source("2001:db8:0:1:ffff:ffff:ffff:ffff"));
  EXPECT_NE(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
  EXPECT_NE(source("0.0.0.0"), source("::"));
}

}  // namespace
}  // namespace kvrail

// The check of bytes that kvrail-perf's results rest on finds each kind of fault.

#include "perf/pattern_memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace kvrail::perf {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

class PatternMemoryTest : public ::testing::TestWithParam<Layout> {
 protected:
  PatternMemoryTest()
      : plan_(make_page_plan(GetParam(), kPageBytes, 16, 4)),
        source_(plan_.memory_bytes()),
        target_(plan_.memory_bytes()) {
    source_.fill();
    for (const PagePlan::Page& page : plan_.pages) {
      std::memcpy(target_.data() + page.target_offset, source_.data() + page.source_offset,
                  page.size_bytes);
    }
  }

  const PagePlan plan_;
  PatternMemory source_;
  PatternMemory target_;
};

TEST_P(PatternMemoryTest, TakesPagesThatArrivedWhole) {
  EXPECT_EQ(target_.check_target(plan_), "");
}

TEST_P(PatternMemoryTest, FindsAWrongBitAtEitherEndOfEveryPage) {
  for (const PagePlan::Page& page : plan_.pages) {
    const std::uint64_t offset = page.target_offset;
    for (const std::uint64_t at : {offset, offset + kPageBytes - 1}) {
      target_.data()[at] ^= std::byte{1};
      EXPECT_NE(target_.check_target(plan_), "") << "byte " << at;
      target_.data()[at] ^= std::byte{1};
    }
  }
  EXPECT_EQ(target_.check_target(plan_), "");
}

TEST_P(PatternMemoryTest, FindsAPageThatDidNotArrive) {
  std::memset(target_.data() + plan_.pages[3].target_offset, 0, kPageBytes);
  EXPECT_NE(target_.check_target(plan_).find("page 3"), std::string::npos);
}

TEST_P(PatternMemoryTest, FindsAnotherPageInAPagesPlace) {
  std::memcpy(target_.data() + plan_.pages[3].target_offset,
              source_.data() + plan_.pages[4].source_offset, kPageBytes);
  EXPECT_NE(target_.check_target(plan_).find("page 3"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Layouts, PatternMemoryTest,
                         ::testing::Values(Layout::kNeighbouring, Layout::kApart,
                                           Layout::kShuffled),
                         [](const auto& info) { return to_string(info.param); });

TEST(PatternMemory, FindsAByteInAGap) {
  const PagePlan plan = make_page_plan(Layout::kApart, kPageBytes, 1, 1);
  PatternMemory memory(plan.memory_bytes());
  memory.fill();
  memory.clear();
  PatternMemory source(plan.memory_bytes());
  source.fill();
  std::memcpy(memory.data(), source.data(), kPageBytes);
  EXPECT_EQ(memory.check_target(plan), "");
  memory.data()[kPageBytes] = std::byte{1};
  EXPECT_NE(memory.check_target(plan).find("gap"), std::string::npos);
}

}  // namespace
}  // namespace kvrail::perf

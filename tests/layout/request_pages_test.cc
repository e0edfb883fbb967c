#include "layout/request_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kvrail/error.h"
#include "layout/small_layout.h"

namespace kvrail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

std::string refusal_of(TokenRange sent, const RequestPages& pages) {
  return refusal([&] { check_pages(layout_of(small_options()), sent, pages); });
}

TEST(CheckPages, AcceptsTablesThatCoverWhatIsSent) {
  EXPECT_EQ(refusal_of({0, 8}, one_table({0, 7})), "accepted");
  EXPECT_EQ(refusal_of({0, 8}, one_table({0, 7, 3})), "accepted");
  EXPECT_EQ(refusal_of({8, 8}, one_table({})), "accepted");
}

TEST(CheckPages, RefusesOthers) {
  EXPECT_THAT(refusal_of({0, 8}, {}), HasSubstr("0 page tables, but the layout has 1 groups"));
  EXPECT_THAT(refusal_of({0, 9}, one_table({0, 1})),
              HasSubstr("group 0 has 2 pages, but 9 tokens in pages of 4 need 3"));
  EXPECT_THAT(refusal_of({0, UINT32_MAX}, one_table({0, 1})), HasSubstr("need 1073741824"));
  EXPECT_THAT(refusal_of({0, 8}, one_table({0, 8})),
              HasSubstr("entry 1 of the page table of group 0 is page 8, but the pool has 8"));
  RequestPages pages = one_table({0, 1});
  pages.dp_rank = DpRank{1};
  EXPECT_THAT(refusal_of({0, 8}, pages), HasSubstr("of dp_rank 1, but no rank of the layout is"));
}

TEST(CheckPages, LooksOnlyAtWhatCrosses) {
  EXPECT_EQ(refusal_of({4, 8}, one_table({99, 7})), "accepted");
  KvLayout layout = layout_of(small_options());
  layout.groups[0].window_tokens = 3;
  EXPECT_EQ(refusal([&] { check_pages(layout, {0, 11}, one_table({99, 99, 7})); }), "accepted");
  EXPECT_THAT(refusal([&] {
                check_pages(layout, {0, 10}, one_table({99, 99, 7}));
              }),
              HasSubstr("entry 1 of the page table of group 0 is page 99"));
  layout.groups[0].kind = CacheKind::kState;
  layout.groups[0].page_tokens = 1;
  layout.groups[0].window_tokens = 0;
  EXPECT_EQ(refusal([&] { check_pages(layout, {0, 10}, one_table({7})); }), "accepted");
  EXPECT_THAT(refusal([&] { check_pages(layout, {0, 10}, one_table({})); }), HasSubstr("need 1"));
}

TEST(CheckPages, CountsTheEntriesOfDealtTokens) {
  KvLayout layout = layout_of(small_options());
  layout.groups[0].cp_ranks = 2;
  // Eight tokens fill page 0 of both ranks; the ninth is on page 1 of the first.
  EXPECT_EQ(refusal([&] { check_pages(layout, {0, 8}, one_table({0})); }), "accepted");
  EXPECT_THAT(refusal([&] {
                check_pages(layout, {0, 9}, one_table({0}));
              }),
              HasSubstr("9 tokens in pages of 4 need 2"));
  EXPECT_EQ(refusal([&] { check_pages(layout, {8, 9}, one_table({99, 0})); }), "accepted");
}

TEST(CheckContextSlot, RefusesSlotsThatTheLayoutLacks) {
  KvCacheOptions options = small_options();
  EXPECT_THAT(refusal([&] { check_context_slot(layout_of(options), ContextSlot{0}); }),
              HasSubstr("the layout has none"));
  options.context_slots = 2;
  EXPECT_EQ(refusal([&] { check_context_slot(layout_of(options), ContextSlot{1}); }), "accepted");
  EXPECT_THAT(refusal([&] { check_context_slot(layout_of(options), ContextSlot{2}); }),
              HasSubstr("slot 2 does not exist: the layout has 2"));
}

TEST(PagesOf, ListsThePagesThatHoldSentTokens) {
  const KvLayout layout = layout_of(small_options());
  const RequestPages pages = one_table({6, 2, 4, 1});
  const auto missing = pages_of(layout, {5, 12}, pages);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].group, CacheGroupIndex{0});
  EXPECT_THAT(missing[0].pages, ElementsAre(PageIndex{2}, PageIndex{4}));
  EXPECT_THAT(pages_of(layout, {12, 13}, pages)[0].pages, ElementsAre(PageIndex{1}));
  EXPECT_THAT(pages_of(layout, {5, 5}, pages), IsEmpty());
}

}  // namespace
}  // namespace kvrail

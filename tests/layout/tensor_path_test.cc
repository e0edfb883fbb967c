#include "layout/tensor_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "layout/random.h"

namespace kvrail {
namespace {

// One tensor on one side.
struct Side {
  CacheGroup group;
  HeadRange held;
  std::uint64_t page_stride = 0;
  std::vector<PageIndex> table;

  // Of the first byte of (token, head).
  std::uint64_t offset(std::uint32_t token, std::uint32_t head) const {
    const std::uint64_t slot = token % group.page_tokens;
    const std::uint64_t cell = group.tensors[0].order == PageOrder::kHnd
                                   ? (head - held.first) * group.page_tokens + slot
                                   : slot * held.count + (head - held.first);
    return table[token / group.page_tokens].value() * page_stride +
           cell * group.tensors[0].head_bytes;
  }
};

// A tensor that both sides shard, page and order as they like: what plans between unlike layouts
// are made of.
class RandomPath {
 public:
  static constexpr std::uint32_t kTokens = 24;

  explicit RandomPath(std::uint64_t seed) : random_(seed) {
    const TensorLayout tensor{"t", pick(random_, 1, 6), pick(random_, 1, 3), PageOrder::kHnd};
    // Some head that both hold.
    const std::uint32_t common = pick(random_, 0, tensor.heads - 1);
    source_ = random_side(tensor, common);
    target_ = random_side(tensor, common);
    sent_.first = pick(random_, 0, kTokens - 1);
    sent_.end = pick(random_, sent_.first + 1, kTokens);
    first_head_ = std::max(source_.held.first, target_.held.first);
    end_head_ =
        std::min(source_.held.first + source_.held.count, target_.held.first + target_.held.count);
    path_.heads = end_head_ - first_head_;
    path_.head_bytes = tensor.head_bytes;
    path_.source = side(source_);
    path_.target = side(target_);
    pattern_ = TokenPattern::of(source_.group, 0, target_.group, 0).value();
  }

  void run() {
    std::vector<PlannedRun> runs;
    for (std::uint32_t first = sent_.first; first < sent_.end;) {
      const std::uint32_t end = pick(random_, first + 1, sent_.end);
      const std::size_t before = runs.size();
      append({first, end}, runs);
      for (std::size_t i = before; i < runs.size(); ++i) {
        const std::uint32_t last_token = check_run(runs[i]);
        EXPECT_GE(last_token, first);
        EXPECT_LT(last_token, end);
      }
      first = end;
    }
    EXPECT_EQ(runs_of(runs), expected_ranges());
    EXPECT_EQ(counted_units(), runs.size());
  }

 private:
  using Range = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // source, target, bytes

  Side random_side(TensorLayout tensor, std::uint32_t common) {
    Side side;
    tensor.order = coin(random_) ? PageOrder::kHnd : PageOrder::kNhd;
    side.group.page_tokens = pick(random_, 1, 7);
    side.group.page_count = kTokens;
    side.group.tensors = {tensor};
    side.held.first = pick(random_, 0, common);
    side.held.count = pick(random_, common + 1, tensor.heads) - side.held.first;
    side.page_stride =
        side.group.page_tokens * side.held.count * tensor.head_bytes + pick(random_, 0, 3);
    for (std::uint32_t page = 0; page < kTokens; ++page) {
      side.table.push_back(PageIndex{page});
    }
    std::shuffle(side.table.begin(), side.table.end(), random_);
    return side;
  }

  TensorPath::Side side(const Side& of) const {
    const TensorPlacement dense;
    return side_of(of.page_stride, row_strides(of.group, of.held, dense), of.held.first,
                   first_head_);
  }

  // With every run written out.
  void append(TokenRange finished, std::vector<PlannedRun>& out) const {
    PlannedRun run;
    run.source_rank = RankIndex{1};
    run.target_rank = RankIndex{2};
    std::vector<PlannedRun> runs;
    for (TokenParts part(pattern_, sent_, finished.first); part.first() < finished.end;
         part.next()) {
      append_part(path_, ranges_of(path_, part.tokens()), run, part, finished,
                  source_.table[part.source_entry()], target_.table[part.target_entry()], runs);
    }
    for (const PlannedRun& repeated : runs) {
      for (std::uint32_t i = 0; i < repeated.count; ++i) {
        PlannedRun one = repeated;
        one.source_offset_bytes += i * repeated.source_stride_bytes;
        one.target_offset_bytes += i * repeated.target_stride_bytes;
        out.push_back(one);
      }
    }
  }

  std::uint64_t counted_units() const {
    std::uint64_t units = 0;
    for (TokenParts part(pattern_, sent_, sent_.first); !part.at_end(); part.next()) {
      units += ranges_of(path_, part.tokens()).units();
    }
    return units;
  }

  // The last token in the run.
  std::uint32_t check_run(const PlannedRun& run) const {
    EXPECT_EQ(run.units, 1u);
    std::uint32_t last_token = 0;
    for (std::uint32_t token = sent_.first; token < sent_.end; ++token) {
      for (std::uint32_t head = first_head_; head < end_head_; ++head) {
        const std::uint64_t source = source_.offset(token, head);
        if (source >= run.source_offset_bytes &&
            source < run.source_offset_bytes + run.size_bytes) {
          last_token = token;
        }
      }
    }
    return last_token;
  }

  // Per pair of pages, what is contiguous on both sides, found byte range by byte range.
  std::vector<Range> expected_ranges() const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Range>> by_pages;
    for (std::uint32_t token = sent_.first; token < sent_.end; ++token) {
      for (std::uint32_t head = first_head_; head < end_head_; ++head) {
        by_pages[{token / source_.group.page_tokens, token / target_.group.page_tokens}]
            .emplace_back(source_.offset(token, head), target_.offset(token, head),
                          path_.head_bytes);
      }
    }
    std::vector<Range> ranges;
    for (auto& [pages, cells] : by_pages) {
      std::sort(cells.begin(), cells.end());
      Range open = cells.front();
      for (auto cell = std::next(cells.begin()); cell != cells.end(); ++cell) {
        auto& [source, target, bytes] = open;
        if (std::get<0>(*cell) == source + bytes && std::get<1>(*cell) == target + bytes) {
          bytes += path_.head_bytes;
        } else {
          ranges.push_back(open);
          open = *cell;
        }
      }
      ranges.push_back(open);
    }
    std::sort(ranges.begin(), ranges.end());
    return ranges;
  }

  static std::vector<Range> runs_of(const std::vector<PlannedRun>& runs) {
    std::vector<Range> ranges;
    for (const PlannedRun& run : runs) {
      EXPECT_EQ(run.source_rank, RankIndex{1});
      EXPECT_EQ(run.target_rank, RankIndex{2});
      ranges.emplace_back(run.source_offset_bytes, run.target_offset_bytes, run.size_bytes);
    }
    std::sort(ranges.begin(), ranges.end());
    return ranges;
  }

  Random random_;
  Side source_;
  Side target_;
  TokenRange sent_;
  std::uint32_t first_head_ = 0;
  std::uint32_t end_head_ = 0;
  TensorPath path_;
  TokenPattern pattern_;
};

TEST(TensorPath, SendsTheLargestCommonRangesWhateverHeadsPagesAndOrders) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    RandomPath(seed).run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace kvrail

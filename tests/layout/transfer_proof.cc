#include "layout/transfer_proof.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "kvrail/error.h"
#include "kvrail/transfer_plan.h"
#include "kvrail/write_list.h"
#include "layout/byte_model.h"

namespace kvrail {
namespace {

// What stands in a byte of memory: a number for each CacheByte, or one of these.
constexpr std::uint32_t kUntouched = 0;
constexpr std::uint32_t kNotComputed = 1;

using Memory = std::vector<std::vector<std::uint32_t>>;  // by region

Memory memory_of(const KvLayout& layout, std::uint32_t content) {
  Memory memory;
  for (const std::uint64_t size : region_sizes(layout)) memory.emplace_back(size, content);
  return memory;
}

std::string name_of(const CacheByte& byte) {
  return fmt::format("byte {} of layer {}, tensor {}, head {}, token {}", byte.byte, byte.layer,
                     byte.tensor, byte.head, byte.token);
}

// One contiguous range, carried out.
struct Range {
  Address source;
  Address target;
  std::uint64_t size = 0;
  PathIndex path;
};

class Proof {
 public:
  explicit Proof(const ShardingCase& of)
      : case_(of),
        random_(of.seed),
        plan_(layout_of(of, of.source), layout_of(of, of.target)),
        source_(plan_.source()),
        target_(plan_.target()),
        source_pages_(random_pages(source_, DpRank{of.source_dp})),
        target_pages_(random_pages(target_, DpRank{of.target_dp})),
        source_memory_(memory_of(source_, kNotComputed)),
        target_memory_(memory_of(target_, kUntouched)),
        writes_(memory_of(target_, 0)) {}

  std::string run() {
    check_pages(source_, case_.sent, source_pages_);
    check_pages(target_, case_.sent, target_pages_);
    const SourceChoice sources = choose();
    std::uint32_t first = 0;
    for (const std::uint32_t end : case_.chunk_ends) {
      compute(end);
      send({first, end}, sources);
      if (!fault_.empty()) return fault_;
      first = end;
    }
    compare_memory();
    compare_units();
    if (fault_.empty()) find_needless_cuts();
    return fault_;
  }

 private:
  // Distinct pages in no order; an entry that no crossing token is in must not be looked at.
  RequestPages random_pages(const KvLayout& layout, DpRank dp_rank) {
    RequestPages pages;
    pages.dp_rank = dp_rank;
    for (const CacheGroup& group : layout.groups) {
      std::vector<PageIndex> pool;
      for (std::uint32_t page = 0; page < group.page_count; ++page) pool.emplace_back(page);
      std::shuffle(pool.begin(), pool.end(), random_);
      std::set<std::uint32_t> entries;
      const TokenRange tokens = crossing_tokens(group, case_.sent);
      for (std::uint32_t token = tokens.first; token < tokens.end; ++token) {
        for (std::uint32_t cp_rank = 0; cp_rank < group.cp_ranks; ++cp_rank) {
          if (const auto local = local_token(group, cp_rank, token)) {
            entries.insert(*local / group.page_tokens);
          }
        }
      }
      if (group.kind == CacheKind::kState && case_.sent.first < case_.sent.end) entries.insert(0);
      auto& table = pages.by_group.emplace_back();
      for (std::uint32_t entry = 0; !entries.empty() && entry <= *entries.rbegin(); ++entry) {
        table.push_back(entries.contains(entry) ? pool[entry] : PageIndex{UINT32_MAX});
      }
    }
    return pages;
  }

  SourceChoice choose() {
    return plan_.choose_sources(
        DpRank{case_.source_dp}, case_.sent,
        [&](std::span<const RankIndex> ranks, std::uint64_t) { return random_() % ranks.size(); });
  }

  std::uint32_t content_of(const CacheByte& byte) {
    return contents_.emplace(byte, 2 + static_cast<std::uint32_t>(contents_.size())).first->second;
  }

  // The tokens of each group that cross, which alone have pages in the tables.
  template <class Visit>
  void for_each_crossing_byte(const KvLayout& layout, std::size_t rank, const RequestPages& pages,
                              Visit visit) const {
    for (const HeldByte& byte : held_bytes(layout, rank, case_.sent, masked(layout, pages))) {
      const CacheGroup& group = layout.groups[byte.group];
      const TokenRange tokens = crossing_tokens(group, case_.sent);
      const bool state = group.kind == CacheKind::kState;
      if (state || (byte.what.token >= tokens.first && byte.what.token < tokens.end)) visit(byte);
    }
  }
  // With pages for the entries before a window, which the model then leaves out.
  static RequestPages masked(const KvLayout&, RequestPages pages) {
    for (auto& table : pages.by_group) {
      for (PageIndex& page : table) {
        if (page.value() == UINT32_MAX) page = PageIndex{0};
      }
      table.resize(table.size() + 64);
    }
    return pages;
  }

  // All ranks of the source hold what is computed up to `end`; a state is that of the last token.
  void compute(std::uint32_t end) {
    for (std::size_t rank = 0; rank < source_.ranks.size(); ++rank) {
      for_each_crossing_byte(source_, rank, source_pages_, [&](const HeldByte& byte) {
        const bool state = source_.groups[byte.group].kind == CacheKind::kState;
        const bool computed = state ? case_.sent.end <= end : byte.what.token < end;
        if (computed) {
          source_memory_[byte.where.region].at(byte.where.offset) = content_of(byte.what);
        }
      });
    }
  }

  template <class Visit>
  void for_each_range(const PlannedRun& run, LayerIndex layer, Visit visit) {
    const auto place_of = [&](const KvLayout& layout, RankIndex rank) {
      for (const RankGroup& group : layout.ranks.at(rank.value()).groups) {
        for (const TensorPlacement& placement : group.placements) {
          if (placement.layer == layer && placement.tensor == run.tensor) return placement;
        }
      }
      throw std::out_of_range("a rank that does not hold the layer");
    };
    const TensorPlacement from = place_of(source_, run.source_rank);
    const TensorPlacement to = place_of(target_, run.target_rank);
    for (std::uint32_t i = 0; i < run.count; ++i) {
      visit(Range{{from.region.value(),
                   from.base_offset_bytes + run.source_offset_bytes + i * run.source_stride_bytes},
                  {to.region.value(),
                   to.base_offset_bytes + run.target_offset_bytes + i * run.target_stride_bytes},
                  run.size_bytes,
                  run.path});
    }
  }

  void send(TokenRange finished, const SourceChoice& sources) {
    for (std::uint32_t g = 0; g < target_.groups.size(); ++g) {
      std::vector<PlannedRun> runs;
      plan_.append_runs(CacheGroupIndex{g}, case_.sent, finished, sources, source_pages_,
                        target_pages_, runs);
      for (const PlannedRun& run : runs) {
        if (run.units != (run.size_bytes + kMaxUnitBytes - 1) / kMaxUnitBytes) {
          fault_ = fmt::format("a range of {} bytes is {} units", run.size_bytes, run.units);
        }
        for (const LayerIndex layer : target_.groups[g].layers) {
          if (!plan_.path_holds(run.path, layer)) continue;
          units_[run.target_rank.value()] += std::uint64_t{run.units} * run.count;
          for_each_range(run, layer, [&](const Range& range) { carry_out(range); });
        }
      }
    }
  }

  void carry_out(const Range& range) {
    for (std::uint64_t i = 0; i < range.size; ++i) {
      const std::uint64_t to = range.target.offset + i;
      target_memory_.at(range.target.region).at(to) =
          source_memory_.at(range.source.region).at(range.source.offset + i);
      ++writes_[range.target.region][to];
    }
    bytes_ += range.size;
    ranges_.push_back(range);
  }

  void compare_memory() {
    Memory expected = memory_of(target_, kUntouched);
    for (std::size_t rank = 0; rank < target_.ranks.size(); ++rank) {
      for_each_crossing_byte(target_, rank, target_pages_, [&](const HeldByte& byte) {
        expected[byte.where.region].at(byte.where.offset) = content_of(byte.what);
        names_.emplace(byte.where, byte);
      });
    }
    for (std::uint32_t region = 0; region < expected.size() && fault_.empty(); ++region) {
      for (std::uint64_t offset = 0; offset < expected[region].size(); ++offset) {
        const std::uint32_t must = expected[region][offset];
        const std::uint32_t is = target_memory_[region][offset];
        const std::uint32_t times = writes_[region][offset];
        if (must == is && times == (must == kUntouched ? 0 : 1)) continue;
        const auto name = names_.find({region, offset});
        fault_ = fmt::format(
            "target region {} offset {}, {}: it holds {}, and was written {} times", region, offset,
            name == names_.end() ? "which is not the request's" : name_of(name->second.what),
            describe(is), times);
        return;
      }
    }
  }

  std::string describe(std::uint32_t content) const {
    if (content == kUntouched) return "what it held before";
    if (content == kNotComputed) return "what was not computed";
    for (const auto& [byte, number] : contents_) {
      if (number == content) return name_of(byte);
    }
    return "?";
  }

  void compare_units() {
    if (!fault_.empty()) return;
    const TransferPlan other(layout_of(case_, case_.source), layout_of(case_, case_.target));
    const auto counted = other.units_by_target_rank(DpRank{case_.target_dp}, case_.sent);
    if (units_ != counted) fault_ = "units differ from what the other side counts";
    if (bytes_ != plan_.bytes(case_.sent)) fault_ = "bytes differ from what the plan says";
    // In one piece, from and to other pages, from other sources.
    const RequestPages source = random_pages(source_, DpRank{case_.source_dp});
    const RequestPages target = random_pages(target_, DpRank{case_.target_dp});
    const SourceChoice sources = choose();
    std::vector<std::uint64_t> units(target_.ranks.size(), 0);
    for (std::uint32_t g = 0; g < target_.groups.size(); ++g) {
      std::vector<PlannedRun> runs;
      plan_.append_runs(CacheGroupIndex{g}, case_.sent, {0, case_.sent.end}, sources, source,
                        target, runs);
      for (const PlannedRun& run : runs) {
        for (const LayerIndex layer : target_.groups[g].layers) {
          if (plan_.path_holds(run.path, layer)) {
            units[run.target_rank.value()] += std::uint64_t{run.units} * run.count;
          }
        }
      }
    }
    if (units != counted) fault_ = "units depend on chunks, pages or sources";
  }

  // Ranges of one path that adjoin on both sides, in the same pages and of the same tensor, are one
  // unit if their heads are the same or follow each other, and their tokens as well: in the prompt,
  // or on the cp_rank where both sides deal them out alike.
  void find_needless_cuts() {
    std::map<Address, HeldByte> held;  // at the source
    for (std::size_t rank = 0; rank < source_.ranks.size(); ++rank) {
      for_each_crossing_byte(source_, rank, source_pages_,
                             [&](const HeldByte& byte) { held.emplace(byte.where, byte); });
    }
    std::map<Address, const Range*> by_target;
    for (const Range& range : ranges_) by_target.emplace(range.target, &range);
    for (const auto& [start, range] : by_target) {
      const auto next = by_target.find({start.region, start.offset + range->size});
      if (next == by_target.end() || next->second->path != range->path) continue;
      const Range& second = *next->second;
      const bool adjoin = second.source.region == range->source.region &&
                          second.source.offset == range->source.offset + range->size;
      if (!adjoin) continue;
      const HeldByte& first = held.at(range->source);
      const HeldByte& end = held.at({range->source.region, range->source.offset + range->size - 1});
      const HeldByte& begin = held.at(second.source);
      const HeldByte& target_end =
          names_.at({range->target.region, range->target.offset + range->size - 1});
      const HeldByte& target_begin = names_.at(second.target);
      const CacheGroup& from = source_.groups[end.group];
      const CacheGroup& to = target_.groups[end.group];
      const bool alike =
          from.cp_ranks == to.cp_ranks &&
          (from.cp_ranks == 1 || from.cp_interleave_tokens == to.cp_interleave_tokens);
      const bool follow =
          alike || begin.what.token == end.what.token || begin.what.token == end.what.token + 1;
      const bool same_heads =
          begin.what.head == first.what.head || begin.what.head == end.what.head + 1;
      if (same_heads && begin.what.tensor == end.what.tensor &&
          begin.what.layer == end.what.layer && begin.entry == end.entry &&
          target_begin.entry == target_end.entry && follow) {
        fault_ =
            fmt::format("a unit is cut between {} and {}", name_of(end.what), name_of(begin.what));
        return;
      }
    }
  }

  const ShardingCase& case_;
  Random random_;
  const TransferPlan plan_;
  const KvLayout& source_;
  const KvLayout& target_;
  const RequestPages source_pages_;
  const RequestPages target_pages_;
  Memory source_memory_;
  Memory target_memory_;
  Memory writes_;  // how often each byte of the target was written
  std::map<CacheByte, std::uint32_t> contents_;
  std::map<Address, HeldByte> names_;  // of the target
  std::vector<Range> ranges_;
  std::vector<std::uint64_t> units_ = std::vector<std::uint64_t>(target_.ranks.size(), 0);
  std::uint64_t bytes_ = 0;
  std::string fault_;
};

}  // namespace

std::string find_fault(const ShardingCase& of) {
  try {
    return Proof(of).run();
  } catch (const std::exception& error) {
    return fmt::format("thrown: {}", error.what());
  }
}

}  // namespace kvrail

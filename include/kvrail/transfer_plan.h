#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kvrail/ids.h"
#include "kvrail/kv_layout.h"

namespace kvrail {

struct RankPath;

// Token positions [first, end) of a request's prompt.
struct TokenRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;

  bool empty() const { return first >= end; }
  bool operator==(const TokenRange&) const = default;
};

// A request's page tables, one per cache group, with the pages of one data-parallel rank.
//
// Without context parallelism token t of the prompt is in entry t / page_tokens, at slot
// t % page_tokens of that page. With it, t is the token's number among those of its cp_rank: an
// entry is that page on all ranks, and stands for page_tokens x cp_ranks tokens. The table of a
// state has one entry. Entries of tokens that do not cross (cached, or outside the window) are not
// looked at.
struct RequestPages {
  std::vector<std::vector<PageIndex>> by_group;
  DpRank dp_rank = {};

  bool operator==(const RequestPages&) const = default;
};

// Contiguous ranges of one tensor, the same for every layer of the path: a layer adds the base
// offset of its placement on either side. Range i < count begins i strides after the first.
struct PlannedRun {
  PathIndex path;
  RankIndex source_rank;
  RankIndex target_rank;
  std::uint32_t tensor = 0;  // index into CacheGroup::tensors
  // Bytes from the tensor's page 0 on that rank.
  std::uint64_t source_offset_bytes = 0;
  std::uint64_t target_offset_bytes = 0;
  std::uint64_t size_bytes = 0;  // of each
  std::uint32_t units = 1;       // of each
  std::uint32_t count = 1;
  std::uint64_t source_stride_bytes = 0;
  std::uint64_t target_stride_bytes = 0;

  bool operator==(const PlannedRun&) const = default;
};

// Which rank sends what several hold, for one request.
class SourceChoice {
 public:
  SourceChoice() = default;
  RankIndex source(PathIndex path) const { return ranks_[path.value()]; }

 private:
  friend class TransferPlan;
  std::vector<RankIndex> ranks_;           // by path
  std::vector<std::uint32_t> candidates_;  // by path: which of its ranks that is
};

// Picks the rank that sends `bytes` of a request, of those that hold them: an index into `ranks`,
// which has at least one.
using SourcePicker =
    std::function<std::size_t(std::span<const RankIndex> ranks, std::uint64_t bytes)>;

// The intersection of a source layout with a target layout: which rank sends which bytes of which
// page where. It consists of paths: what one target rank takes of one cache group from one source
// rank, or from any of several that hold it in the same form.
//
// A unit is one maximal contiguous range in (source page, target page, tensor, heads, sent tokens),
// of tokens that follow each other in the prompt or, where both sides deal them out alike, on their
// cp_rank. A range longer than kMaxUnitBytes counts ceil(size / kMaxUnitBytes) units. Units do not
// depend on chunks, merging, rails, page numbers, data-parallel ranks, or which rank sends, so both
// sides count alike.
//
// Pure: the same layouts give the same plan on both sides. Immutable after construction and so safe
// to use from any thread; copies share what they hold.
class TransferPlan {
 public:
  // Throws Error (kLayoutMismatch) that quotes both layouts and names the first difference that
  // cannot be served, or what validate() throws. Served are layouts of the same model: the same
  // layers in the same groups, with the same tensors, heads and row sizes. How they are sharded,
  // paged, ordered, padded and placed may differ.
  TransferPlan(KvLayout source, KvLayout target);

  const KvLayout& source() const;
  const KvLayout& target() const;

  // Units that arrive on each target rank (index: RankIndex) for a request to that data-parallel
  // rank of which the tokens `sent` cross, over all layers, without context. Independent of the
  // page tables.
  std::vector<std::uint64_t> units_by_target_rank(DpRank target, TokenRange sent) const;

  // Bytes that arrive on all target ranks, likewise.
  std::uint64_t bytes(TokenRange sent) const;

  // Units of one context slot on each rank that receives it; 0 where the layouts have none.
  std::uint64_t context_units() const;

  std::size_t path_count() const;
  // Whether the path's ranks hold this layer, which is in the path's cache group.
  bool path_holds(PathIndex path, LayerIndex layer) const;

  // Who sends, for a request whose pages are on that data-parallel rank of the source and of which
  // the tokens `sent` cross. `pick` is called once for each path.
  SourceChoice choose_sources(DpRank source, TokenRange sent, const SourcePicker& pick) const;

  // Appends the runs of one layer of `group` whose last token is in `finished`, of a request of
  // which the tokens `sent` cross. Over disjoint `finished` ranges that cover `sent`, every unit
  // is appended exactly once. Runs that are neighbours in memory are neighbours in the list: runs
  // of one path come together, page by page where the tensors of a page adjoin on both sides, else
  // tensor by tensor. They hold for the layers of their path only.
  // Both page tables have passed check_pages for `sent`.
  void append_runs(CacheGroupIndex group, TokenRange sent, TokenRange finished,
                   const SourceChoice& sources, const RequestPages& source_pages,
                   const RequestPages& target_pages, std::vector<PlannedRun>& out) const;

 private:
  struct Tables;

  std::uint64_t path_bytes(std::size_t group, const RankPath& path, TokenRange sent) const;

  std::shared_ptr<const Tables> tables_;
};

// Throws Error (kInvalidArgument) unless `pages` has one table per group, each long enough for
// `sent` (of any length if that is empty), with page numbers inside the pool wherever tokens of
// `sent` cross, and names a data-parallel rank of the layout.
void check_pages(const KvLayout& layout, TokenRange sent, const RequestPages& pages);

// Throws Error (kInvalidArgument) unless the layout has that slot on every data-parallel rank.
void check_context_slot(const KvLayout& layout, ContextSlot slot);

}  // namespace kvrail

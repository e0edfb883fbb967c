#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvrail/ids.h"
#include "kvrail/kv_layout.h"

namespace kvrail {

// Token positions [first, end) of a request's prompt.
struct TokenRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;

  bool empty() const { return first >= end; }
  bool operator==(const TokenRange&) const = default;
};

// A request's page tables, one per cache group: token t of the prompt is in entry
// t / page_tokens, at slot t % page_tokens of that page.
struct RequestPages {
  std::vector<std::vector<PageIndex>> by_group;

  bool operator==(const RequestPages&) const = default;
};

// A contiguous range of one tensor, the same for every layer of its cache group: a layer adds the
// base offset of its placement on either side.
struct PlannedRun {
  RankIndex source_rank;
  RankIndex target_rank;
  std::uint32_t tensor = 0;  // index into CacheGroup::tensors
  // Bytes from the tensor's page 0 on that rank.
  std::uint64_t source_offset_bytes = 0;
  std::uint64_t target_offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t units = 1;

  bool operator==(const PlannedRun&) const = default;
};

// The intersection of a source layout with a target layout: which rank sends which bytes of which
// page where. A unit is one maximal contiguous range in (source page, target page, tensor, heads,
// sent tokens); a range longer than kMaxUnitBytes counts ceil(size / kMaxUnitBytes) units. Units do
// not depend on chunks, merging, rails, or which replica sends, so both sides count alike.
//
// Pure: the same layouts give the same plan on both sides. Immutable after construction and so safe
// to use from any thread.
class TransferPlan {
 public:
  // Throws Error (kLayoutMismatch) that quotes both layouts and names the first difference that
  // cannot be served, or what validate() throws. Served are layouts that are sharded alike: rank i
  // sends to rank i. Regions, bases, strides, pool sizes and device groups may differ.
  TransferPlan(KvLayout source, KvLayout target);

  const KvLayout& source() const { return source_; }
  const KvLayout& target() const { return target_; }

  // Units that arrive on each target rank (index: RankIndex) for a request of which the tokens
  // `sent` cross, over all layers, without context. Independent of the page tables.
  std::vector<std::uint64_t> units_by_target_rank(TokenRange sent) const;

  // Units of one context slot; 0 where the layouts have none.
  std::uint64_t context_units() const;

  // Appends the runs of one layer of `group` whose last token is in `finished`, of a request of
  // which the tokens `sent` cross. Over disjoint `finished` ranges that cover `sent`, every unit
  // is appended exactly once. Runs that are neighbours in memory are neighbours in the list: runs
  // of one pair of ranks come together, page by page where the tensors of a page adjoin on both
  // sides, else tensor by tensor. A layer that a rank does not hold leaves that rank's runs out.
  // Page tables must cover sent.end tokens; page numbers must be below page_count (checked by
  // check_pages, once per request). Allocates nothing but in `out`.
  void append_runs(CacheGroupIndex group, TokenRange sent, TokenRange finished,
                   const RequestPages& source_pages, const RequestPages& target_pages,
                   std::vector<PlannedRun>& out) const;

 private:
  struct Tables;

  KvLayout source_;
  KvLayout target_;
  std::shared_ptr<const Tables> tables_;
};

// Throws Error (kInvalidArgument) unless `pages` has one table per group, each long enough for
// `sent` (of any length if that is empty) and with page numbers inside the pool.
void check_pages(const KvLayout& layout, TokenRange sent, const RequestPages& pages);

// Throws Error (kInvalidArgument) unless the layout has that slot.
void check_context_slot(const KvLayout& layout, ContextSlot slot);

}  // namespace kvrail

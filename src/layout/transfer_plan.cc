#include "kvrail/transfer_plan.h"

#include <algorithm>
#include <utility>

#include "kvrail/error.h"
#include "kvrail/write_list.h"
#include "layout/dp_ranks.h"
#include "layout/layout_difference.h"
#include "layout/path_builder.h"
#include "layout/token_parts.h"

namespace kvrail {
namespace {

constexpr std::size_t kMaxQuote = 4096;

std::string quote(const KvLayout& layout) {
  std::string text = to_text(layout);
  if (text.size() > kMaxQuote) {
    const auto cut = text.rfind('\n', kMaxQuote);
    const auto lines =
        std::count(text.begin() + static_cast<std::ptrdiff_t>(cut) + 1, text.end(), '\n');
    text.resize(cut + 1);
    text += "... and " + std::to_string(lines) + " lines more\n";
  }
  return text;
}

[[noreturn]] void refuse_layouts(const KvLayout& source, const KvLayout& target,
                                 const std::string& why) {
  throw Error(ErrorCode::kLayoutMismatch, "the layouts cannot be served: " + why + "\nsource:\n" +
                                              quote(source) + "target:\n" + quote(target));
}

// Runs of a part of a page, with what the two page tables say.
class RunAppender {
 public:
  RunAppender(TokenRange due, const std::vector<PageIndex>& source_table,
              const std::vector<PageIndex>& target_table, std::vector<PlannedRun>& out)
      : due_(due), source_table_(source_table), target_table_(target_table), out_(out) {}

  void append(const RankPath::Candidate& from, const PlannedRun& run, const TokenParts& begin) {
    if (from.page_by_page) {
      append(from.tensors, run, begin);
    } else {
      for (const TensorPath& tensor : from.tensors) append({&tensor, 1}, run, begin);
    }
  }

 private:
  void append(std::span<const TensorPath> tensors, const PlannedRun& run, TokenParts part) {
    std::uint32_t tokens = 0;  // of the parts that ranges_ is for: most are whole pages
    for (; part.first() < due_.end; part.next()) {
      if (part.tokens() != tokens) {
        tokens = part.tokens();
        ranges_.clear();
        for (const TensorPath& tensor : tensors) ranges_.push_back(ranges_of(tensor, tokens));
      }
      const PageIndex source = source_table_[part.source_entry()];
      const PageIndex target = target_table_[part.target_entry()];
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        append_part(tensors[t], ranges_[t], run, part, due_, source, target, out_);
      }
    }
  }

  const TokenRange due_;  // as the pattern numbers them
  const std::vector<PageIndex>& source_table_;
  const std::vector<PageIndex>& target_table_;
  std::vector<PlannedRun>& out_;
  std::vector<PartRanges> ranges_;  // by tensor
};

}  // namespace

struct TransferPlan::Tables {
  KvLayout source;
  KvLayout target;
  std::vector<GroupPaths> groups;
  std::vector<std::size_t> first_path;               // by group: the number of its first path
  std::vector<std::vector<bool>> layers;             // by path: whether it holds each layer
  std::vector<std::vector<RankIndex>> source_ranks;  // by data-parallel rank
  std::vector<std::vector<RankIndex>> target_ranks;
};

TransferPlan::TransferPlan(KvLayout source, KvLayout target) {
  validate(source);
  validate(target);
  if (const auto difference = first_difference(source, target)) {
    refuse_layouts(source, target, *difference);
  }
  auto groups = build_paths(source, target);
  if (!groups) {
    refuse_layouts(source, target,
                   "they need more than " + std::to_string(kMaxPaths) +
                       " pairs of ranks, or too long to find them");
  }
  auto tables = std::make_shared<Tables>();
  tables->groups = std::move(*groups);
  for (const GroupPaths& group : tables->groups) {
    tables->first_path.push_back(tables->layers.size());
    for (const RankPath& path : group.paths) {
      auto& holds = tables->layers.emplace_back(source.layer_count, false);
      for (const LayerIndex layer : path.layers) holds[layer.value()] = true;
    }
  }
  tables->source_ranks = ranks_by_dp(source);
  tables->target_ranks = ranks_by_dp(target);
  tables->source = std::move(source);
  tables->target = std::move(target);
  tables_ = std::move(tables);
}

const KvLayout& TransferPlan::source() const { return tables_->source; }
const KvLayout& TransferPlan::target() const { return tables_->target; }

std::vector<std::uint64_t> TransferPlan::units_by_target_rank(DpRank dp_rank,
                                                              TokenRange sent) const {
  std::vector<std::uint64_t> units(target().ranks.size(), 0);
  const std::vector<RankIndex>& ranks = tables_->target_ranks[dp_rank.value()];
  for (std::size_t g = 0; g < tables_->groups.size(); ++g) {
    const GroupPaths& group = tables_->groups[g];
    const TokenRange tokens = crossing(source().groups[g], sent);
    for (std::size_t p = 0; p < group.patterns.size(); ++p) {
      const PartLengths lengths = part_lengths(group.patterns[p], tokens);
      for (const RankPath& path : group.paths) {
        if (path.pattern != p) continue;
        std::uint64_t of_layer = 0;
        for (const TensorPath& tensor : path.candidates.front().tensors) {
          for (const auto& [length, times] : lengths) {
            of_layer += ranges_of(tensor, length).units() * times;
          }
        }
        units[ranks[path.target].value()] += of_layer * path.layers.size();
      }
    }
  }
  return units;
}

std::uint64_t TransferPlan::bytes(TokenRange sent) const {
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < tables_->groups.size(); ++g) {
    for (const RankPath& path : tables_->groups[g].paths) bytes += path_bytes(g, path, sent);
  }
  return bytes;
}

std::uint64_t TransferPlan::context_units() const {
  return target().contexts.empty()
             ? 0
             : (target().contexts.front().slot_bytes + kMaxUnitBytes - 1) / kMaxUnitBytes;
}

std::size_t TransferPlan::path_count() const { return tables_->layers.size(); }

bool TransferPlan::path_holds(PathIndex path, LayerIndex layer) const {
  return tables_->layers[path.value()][layer.value()];
}

SourceChoice TransferPlan::choose_sources(DpRank dp_rank, TokenRange sent,
                                          const SourcePicker& pick) const {
  SourceChoice choice;
  const std::vector<RankIndex>& ranks = tables_->source_ranks[dp_rank.value()];
  std::vector<RankIndex> holders;
  for (std::size_t g = 0; g < tables_->groups.size(); ++g) {
    for (const RankPath& path : tables_->groups[g].paths) {
      holders.clear();
      for (const RankPath::Candidate& candidate : path.candidates) {
        holders.push_back(ranks[candidate.rank]);
      }
      const std::size_t picked = pick(holders, path_bytes(g, path, sent));
      choice.candidates_.push_back(static_cast<std::uint32_t>(picked));
      choice.ranks_.push_back(holders.at(picked));
    }
  }
  return choice;
}

void TransferPlan::append_runs(CacheGroupIndex group_index, TokenRange sent, TokenRange finished,
                               const SourceChoice& sources, const RequestPages& source_pages,
                               const RequestPages& target_pages,
                               std::vector<PlannedRun>& out) const {
  const CacheGroup& group = source().groups[group_index.value()];
  const TokenRange now = crossing_now(group, sent, finished);
  if (now.empty()) return;
  const TokenRange tokens = crossing(group, sent);
  const GroupPaths& paths = tables_->groups[group_index.value()];
  const std::vector<RankIndex>& target_ranks = tables_->target_ranks[target_pages.dp_rank.value()];
  for (std::size_t i = 0; i < paths.paths.size(); ++i) {
    const RankPath& path = paths.paths[i];
    const TokenPattern& pattern = paths.patterns[path.pattern];
    const TokenRange due = pattern.numbered(now);
    if (due.empty()) continue;
    PlannedRun run;
    run.path = PathIndex(static_cast<std::uint32_t>(tables_->first_path[group_index.value()] + i));
    run.source_rank = sources.source(run.path);
    run.target_rank = target_ranks[path.target];
    const RankPath::Candidate& from = path.candidates[sources.candidates_[run.path.value()]];
    // About one run per part and tensor.
    const std::size_t parts = 2 + (due.end - due.first) / pattern.source_page_tokens +
                              (due.end - due.first) / pattern.target_page_tokens;
    const std::size_t needed = out.size() + parts * from.tensors.size();
    if (needed > out.capacity()) out.reserve(std::max(needed, 2 * out.capacity()));
    RunAppender(due, source_pages.by_group[group_index.value()],
                target_pages.by_group[group_index.value()], out)
        .append(from, run, TokenParts(pattern, pattern.numbered(tokens), due.first));
  }
}

std::uint64_t TransferPlan::path_bytes(std::size_t group, const RankPath& path,
                                       TokenRange sent) const {
  const TokenPattern& pattern = tables_->groups[group].patterns[path.pattern];
  std::uint64_t tokens = 0;
  for (const auto& [length, times] :
       part_lengths(pattern, crossing(source().groups[group], sent))) {
    tokens += length * times;
  }
  return tokens * path.bytes_per_token();
}

}  // namespace kvrail

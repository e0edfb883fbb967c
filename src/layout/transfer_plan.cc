#include "kvrail/transfer_plan.h"

#include <algorithm>
#include <utility>

#include "kvrail/error.h"
#include "kvrail/write_list.h"
#include "layout/layout_difference.h"
#include "layout/placement_index.h"
#include "layout/tensor_path.h"
#include "layout/token_parts.h"

namespace kvrail {
namespace {

// What one source rank sends to one target rank of one cache group.
struct RankPath {
  RankIndex source;
  RankIndex target;
  std::uint64_t layers = 0;         // that both hold; at least 1
  bool page_by_page = false;        // the tensors of a page adjoin on both sides
  std::vector<TensorPath> tensors;  // in order of their addresses at the source if page_by_page
};

struct GroupPaths {
  std::uint32_t source_page_tokens = 0;
  std::uint32_t target_page_tokens = 0;
  std::vector<RankPath> ranks;
};

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

// Whether the tensors of a page lie within one stride of each other in one region.
bool adjoin(const std::vector<const PlacementIndex::Place*>& places) {
  const auto low_to_high = [](const auto* a, const auto* b) {
    return a->base_offset_bytes < b->base_offset_bytes;
  };
  const auto& [low, high] = std::minmax_element(places.begin(), places.end(), low_to_high);
  const std::uint64_t extent = (*high)->base_offset_bytes - (*low)->base_offset_bytes;
  return std::all_of(places.begin(), places.end(), [&](const auto* place) {
    return place->region == places.front()->region &&
           place->page_stride_bytes == places.front()->page_stride_bytes &&
           extent < place->page_stride_bytes;
  });
}

RankPath rank_path(const KvLayout& source, const PlacementIndex& source_index,
                   const KvLayout& target, const PlacementIndex& target_index, std::size_t group,
                   RankIndex source_rank, RankIndex target_rank) {
  RankPath path;
  path.source = source_rank;
  path.target = target_rank;
  LayerIndex layer;  // one that both hold; all have the same strides
  for (const LayerIndex candidate : source.groups[group].layers) {
    if (source_index.holds(source_rank, candidate) && target_index.holds(target_rank, candidate)) {
      layer = candidate;
      ++path.layers;
    }
  }
  if (path.layers == 0) {
    return path;
  }
  const RankGroup& sends = source.ranks[source_rank.value()].groups[group];
  const RankGroup& takes = target.ranks[target_rank.value()].groups[group];
  std::vector<const PlacementIndex::Place*> source_places;
  std::vector<const PlacementIndex::Place*> target_places;
  for (std::uint32_t t = 0; t < sends.heads.size(); ++t) {
    const HeadRange from = sends.heads[t];
    const HeadRange to = takes.heads[t];
    const std::uint32_t first = std::max(from.first, to.first);
    const std::uint32_t end = std::min(from.first + from.count, to.first + to.count);
    if (first >= end) {
      continue;
    }
    source_places.push_back(source_index.find(source_rank, layer, t));
    target_places.push_back(target_index.find(target_rank, layer, t));
    TensorPath tensor;
    tensor.tensor = t;
    tensor.heads = end - first;
    tensor.head_bytes = source.groups[group].tensors[t].head_bytes;
    tensor.source =
        side_of(source.groups[group], t, from, first, source_places.back()->page_stride_bytes);
    tensor.target =
        side_of(target.groups[group], t, to, first, target_places.back()->page_stride_bytes);
    path.tensors.push_back(tensor);
  }
  if (path.tensors.size() > 1 && adjoin(source_places) && adjoin(target_places)) {
    path.page_by_page = true;
    std::sort(path.tensors.begin(), path.tensors.end(),
              [&](const TensorPath& a, const TensorPath& b) {
                return source_index.find(source_rank, layer, a.tensor)->base_offset_bytes <
                       source_index.find(source_rank, layer, b.tensor)->base_offset_bytes;
              });
  }
  return path;
}

// How often parts of each length occur in `sent`.
std::vector<std::pair<std::uint32_t, std::uint64_t>> part_lengths(
    TokenRange sent, std::uint32_t source_page_tokens, std::uint32_t target_page_tokens) {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> lengths;
  const auto count = [&](std::uint32_t tokens, std::uint64_t times) {
    const auto known = std::find_if(lengths.begin(), lengths.end(),
                                    [&](const auto& entry) { return entry.first == tokens; });
    if (known == lengths.end()) {
      lengths.emplace_back(tokens, times);
    } else {
      known->second += times;
    }
  };
  while (!sent.empty()) {
    const TokenParts part(sent, sent.first, source_page_tokens, target_page_tokens);
    // Between equal pages all but the first and the last part are whole pages.
    const std::uint32_t times =
        source_page_tokens == target_page_tokens && part.tokens() == source_page_tokens
            ? (sent.end - sent.first) / source_page_tokens
            : 1;
    count(part.tokens(), times);
    sent.first += part.tokens() * times;
  }
  return lengths;
}

}  // namespace

struct TransferPlan::Tables {
  std::vector<GroupPaths> groups;
};

TransferPlan::TransferPlan(KvLayout source, KvLayout target)
    : source_(std::move(source)), target_(std::move(target)) {
  validate(source_);
  validate(target_);
  if (const auto difference = first_difference(source_, target_)) {
    throw Error(ErrorCode::kLayoutMismatch, "the layouts cannot be served: " + *difference +
                                                "\nsource:\n" + quote(source_) + "target:\n" +
                                                quote(target_));
  }
  const PlacementIndex source_index(source_);
  const PlacementIndex target_index(target_);
  auto tables = std::make_shared<Tables>();
  for (std::size_t g = 0; g < source_.groups.size(); ++g) {
    GroupPaths group{source_.groups[g].page_tokens, target_.groups[g].page_tokens, {}};
    for (std::uint32_t rank = 0; rank < source_.ranks.size(); ++rank) {
      RankPath path = rank_path(source_, source_index, target_, target_index, g, RankIndex{rank},
                                RankIndex{rank});
      if (!path.tensors.empty()) {
        group.ranks.push_back(std::move(path));
      }
    }
    tables->groups.push_back(std::move(group));
  }
  tables_ = std::move(tables);
}

std::vector<std::uint64_t> TransferPlan::units_by_target_rank(TokenRange sent) const {
  std::vector<std::uint64_t> units(target_.ranks.size(), 0);
  for (const GroupPaths& group : tables_->groups) {
    for (const auto& [tokens, times] :
         part_lengths(sent, group.source_page_tokens, group.target_page_tokens)) {
      for (const RankPath& path : group.ranks) {
        for (const TensorPath& tensor : path.tensors) {
          units[path.target.value()] += ranges_of(tensor, tokens).units() * times * path.layers;
        }
      }
    }
  }
  return units;
}

std::uint64_t TransferPlan::context_units() const {
  return target_.context ? (target_.context->slot_bytes + kMaxUnitBytes - 1) / kMaxUnitBytes : 0;
}

void TransferPlan::append_runs(CacheGroupIndex group_index, TokenRange sent, TokenRange finished,
                               const RequestPages& source_pages, const RequestPages& target_pages,
                               std::vector<PlannedRun>& out) const {
  const TokenRange due{std::max(sent.first, finished.first), std::min(sent.end, finished.end)};
  if (due.empty()) {
    return;
  }
  const GroupPaths& group = tables_->groups[group_index.value()];
  const std::vector<PageIndex>& source_table = source_pages.by_group[group_index.value()];
  const std::vector<PageIndex>& target_table = target_pages.by_group[group_index.value()];
  const TokenParts begin(sent, due.first, group.source_page_tokens, group.target_page_tokens);

  const auto append = [&](const RankPath& path, auto first_tensor, auto end_tensor) {
    for (TokenParts part = begin; part.first() < due.end; part.next()) {
      for (auto tensor = first_tensor; tensor != end_tensor; ++tensor) {
        append_part(*tensor, path.source, path.target, part, due, source_table[part.source_entry()],
                    target_table[part.target_entry()], out);
      }
    }
  };
  for (const RankPath& path : group.ranks) {
    if (path.page_by_page) {
      append(path, path.tensors.begin(), path.tensors.end());
    } else {
      for (auto tensor = path.tensors.begin(); tensor != path.tensors.end(); ++tensor) {
        append(path, tensor, std::next(tensor));
      }
    }
  }
}

}  // namespace kvrail

#include "layout/path_builder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "layout/dp_ranks.h"
#include "layout/placement_index.h"
#include "layout/row_strides.h"

namespace kvrail {
namespace {

// One side: its first data-parallel rank, for which all others stand.
struct Side {
  explicit Side(const KvLayout& all) : layout(all), ranks(ranks_by_dp(all)[0]), index(all) {}

  const RankGroup& held(std::uint32_t rank, std::size_t group) const {
    return layout.ranks[ranks[rank].value()].groups[group];
  }
  std::uint32_t cp_rank(std::uint32_t rank, std::size_t group) const {
    return layout.groups[group].cp_ranks == 1 ? 0 : layout.ranks[ranks[rank].value()].cp_rank;
  }
  bool holds(std::uint32_t rank, LayerIndex layer) const { return index.holds(ranks[rank], layer); }
  const PlacementIndex::Place& place(std::uint32_t rank, LayerIndex layer,
                                     std::uint32_t tensor) const {
    return *index.find(ranks[rank], layer, tensor);
  }

  const KvLayout& layout;
  const std::vector<RankIndex> ranks;
  const PlacementIndex index;
};

// Heads of one tensor that all of some ranks hold in the same form.
struct Cell {
  std::uint32_t tensor = 0;
  HeadRange heads;
};

using Holders = std::vector<std::uint32_t>;  // ranks of the source, ascending

// Layers that the same ranks of the source hold, ascending.
using LayerClasses = std::map<Holders, std::vector<LayerIndex>>;

LayerClasses layer_classes(const Side& source, std::size_t group) {
  LayerClasses classes;
  std::vector<LayerIndex> layers = source.layout.groups[group].layers;
  std::sort(layers.begin(), layers.end());
  for (const LayerIndex layer : layers) {
    Holders holders;
    for (std::uint32_t rank = 0; rank < source.ranks.size(); ++rank) {
      if (source.holds(rank, layer)) holders.push_back(rank);
    }
    classes[std::move(holders)].push_back(layer);
  }
  return classes;
}

class GroupBuilder {
 public:
  GroupBuilder(const Side& source, const Side& target, std::size_t group, std::size_t& work_left)
      : source_(source), target_(target), group_(group), work_left_(work_left) {}

  // False if it takes too long, or more than `paths_left` paths.
  bool build(std::size_t& paths_left) {
    const LayerClasses classes = layer_classes(source_, group_);
    const std::size_t tensors = source_.layout.groups[group_].tensors.size();
    for (std::uint32_t rank = 0; rank < target_.ranks.size(); ++rank) {
      for (const auto& [holders, layers] : classes) {
        if (!spend((holders.size() + layers.size()) * tensors)) return false;
        std::vector<LayerIndex> common;
        std::copy_if(layers.begin(), layers.end(), std::back_inserter(common),
                     [&](LayerIndex layer) { return target_.holds(rank, layer); });
        if (!common.empty() && !add_class(rank, holders, common)) return false;
        if (paths_.paths.size() > paths_left) return false;
      }
    }
    paths_left -= paths_.paths.size();
    return true;
  }

  GroupPaths take() { return std::move(paths_); }

 private:
  bool spend(std::size_t work) {
    if (work > work_left_) return false;
    work_left_ -= work;
    return true;
  }

  // The paths to one target rank from ranks that hold the same layers, one cp_rank after another.
  bool add_class(std::uint32_t target, const Holders& holders,
                 const std::vector<LayerIndex>& layers) {
    std::map<std::uint32_t, Holders> by_cp_rank;
    for (const std::uint32_t rank : holders) {
      by_cp_rank[source_.cp_rank(rank, group_)].push_back(rank);
    }
    for (const auto& [cp_rank, dealt] : by_cp_rank) {
      if (const auto pattern = pattern_of(cp_rank, target_.cp_rank(target, group_))) {
        const auto cells = cells_of(target, dealt, layers.front());
        if (!cells) return false;
        for (const auto& [candidates, of_them] : *cells) {
          add_path(target, *pattern, layers, candidates, of_them);
        }
      }
    }
    return true;
  }

  std::optional<std::uint32_t> pattern_of(std::uint32_t source_cp_rank,
                                          std::uint32_t target_cp_rank) {
    const auto key = std::pair(source_cp_rank, target_cp_rank);
    if (const auto known = pattern_by_cp_ranks_.find(key); known != pattern_by_cp_ranks_.end()) {
      return known->second;
    }
    std::optional<std::uint32_t> number;
    if (const auto pattern = TokenPattern::of(source_.layout.groups[group_], source_cp_rank,
                                              target_.layout.groups[group_], target_cp_rank)) {
      number = static_cast<std::uint32_t>(paths_.patterns.size());
      paths_.patterns.push_back(*pattern);
    }
    pattern_by_cp_ranks_.emplace(key, number);
    return number;
  }

  // Cuts what the target rank holds where a holder's heads begin or end, and finds for each cell
  // the ranks that hold it in the same form as the first one does. nullopt if it takes too long.
  std::optional<std::map<Holders, std::vector<Cell>>> cells_of(std::uint32_t target,
                                                               const Holders& holders,
                                                               LayerIndex layer) {
    std::map<Holders, std::vector<Cell>> cells;
    const RankGroup& takes = target_.held(target, group_);
    for (std::uint32_t tensor = 0; tensor < takes.heads.size(); ++tensor) {
      const std::uint32_t first = takes.heads[tensor].first;
      const std::uint32_t end = first + takes.heads[tensor].count;
      std::vector<std::uint32_t> cuts = {first, end};
      for (const std::uint32_t rank : holders) {
        const HeadRange held = source_.held(rank, group_).heads[tensor];
        for (const std::uint32_t cut : {held.first, held.first + held.count}) {
          if (first < cut && cut < end) cuts.push_back(cut);
        }
      }
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      if (!spend(cuts.size() * holders.size())) return std::nullopt;
      for (std::size_t i = 1; i < cuts.size(); ++i) {
        const HeadRange heads{cuts[i - 1], cuts[i] - cuts[i - 1]};
        std::vector<Cell>& known = cells[candidates_for(holders, layer, tensor, heads)];
        const bool follows = !known.empty() && known.back().tensor == tensor &&
                             known.back().heads.first + known.back().heads.count == heads.first;
        if (follows) {
          known.back().heads.count += heads.count;
        } else {
          known.push_back({tensor, heads});
        }
      }
    }
    return cells;
  }

  Holders candidates_for(const Holders& holders, LayerIndex layer, std::uint32_t tensor,
                         HeadRange heads) const {
    Holders candidates;
    std::optional<RowStrides> form;
    for (const std::uint32_t rank : holders) {
      const HeadRange held = source_.held(rank, group_).heads[tensor];
      const bool has =
          held.first <= heads.first && heads.first + heads.count <= held.first + held.count;
      if (!has) continue;
      const RowStrides rows = source_.place(rank, layer, tensor).rows;
      if (!form) form = rows;
      if (rows == *form) candidates.push_back(rank);
    }
    return candidates;
  }

  void add_path(std::uint32_t target, std::uint32_t pattern, const std::vector<LayerIndex>& layers,
                const Holders& candidates, const std::vector<Cell>& cells) {
    RankPath path;
    path.target = target;
    path.pattern = pattern;
    path.layers = layers;
    for (const std::uint32_t rank : candidates) {
      path.candidates.push_back(candidate(rank, target, layers.front(), cells));
    }
    paths_.paths.push_back(std::move(path));
  }

  RankPath::Candidate candidate(std::uint32_t rank, std::uint32_t target, LayerIndex layer,
                                const std::vector<Cell>& cells) const {
    RankPath::Candidate result;
    result.rank = rank;
    for (const Cell& cell : cells) {
      const PlacementIndex::Place& from = source_.place(rank, layer, cell.tensor);
      const PlacementIndex::Place& to = target_.place(target, layer, cell.tensor);
      TensorPath tensor;
      tensor.tensor = cell.tensor;
      tensor.heads = cell.heads.count;
      tensor.head_bytes = source_.layout.groups[group_].tensors[cell.tensor].head_bytes;
      tensor.source =
          side_of(from.page_stride_bytes, from.rows,
                  source_.held(rank, group_).heads[cell.tensor].first, cell.heads.first);
      tensor.target =
          side_of(to.page_stride_bytes, to.rows,
                  target_.held(target, group_).heads[cell.tensor].first, cell.heads.first);
      result.tensors.push_back(tensor);
    }
    const auto base = [&](const TensorPath& path) {
      return source_.place(rank, layer, path.tensor).base_offset_bytes +
             path.source.first_head_bytes;
    };
    if (result.tensors.size() > 1 && adjoin(source_, rank, layer, result.tensors) &&
        adjoin(target_, target, layer, result.tensors)) {
      result.page_by_page = true;
      std::stable_sort(result.tensors.begin(), result.tensors.end(),
                       [&](const TensorPath& a, const TensorPath& b) { return base(a) < base(b); });
    }
    return result;
  }

  // Whether the tensors of a page lie within one stride of each other in one region.
  static bool adjoin(const Side& side, std::uint32_t rank, LayerIndex layer,
                     const std::vector<TensorPath>& tensors) {
    const PlacementIndex::Place& first = side.place(rank, layer, tensors.front().tensor);
    std::uint64_t low = first.base_offset_bytes;
    std::uint64_t high = low;
    for (const TensorPath& tensor : tensors) {
      const PlacementIndex::Place& place = side.place(rank, layer, tensor.tensor);
      if (place.region != first.region || place.page_stride_bytes != first.page_stride_bytes) {
        return false;
      }
      low = std::min(low, place.base_offset_bytes);
      high = std::max(high, place.base_offset_bytes);
    }
    return high - low < first.page_stride_bytes;
  }

  const Side& source_;
  const Side& target_;
  const std::size_t group_;
  std::size_t& work_left_;
  GroupPaths paths_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::optional<std::uint32_t>>
      pattern_by_cp_ranks_;
};

}  // namespace

std::uint64_t RankPath::bytes_per_token() const {
  std::uint64_t bytes = 0;
  for (const TensorPath& tensor : candidates.front().tensors) {
    bytes += tensor.heads * tensor.head_bytes;
  }
  return bytes * layers.size();
}

std::optional<std::vector<GroupPaths>> build_paths(const KvLayout& source, const KvLayout& target) {
  const Side from(source);
  const Side to(target);
  std::size_t work_left = std::size_t{1} << 26;
  std::size_t paths_left = kMaxPaths;
  std::vector<GroupPaths> groups;
  for (std::size_t g = 0; g < source.groups.size(); ++g) {
    GroupBuilder builder(from, to, g, work_left);
    if (!builder.build(paths_left)) return std::nullopt;
    groups.push_back(builder.take());
  }
  return groups;
}

}  // namespace kvrail

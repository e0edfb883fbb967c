#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvrail/transfer_plan.h"
#include "layout/tensor_path.h"
#include "layout/token_pattern.h"

namespace kvrail {

// What one target rank takes of one cache group from one source rank. Ranks are numbered within
// their data-parallel rank.
struct RankPath {
  // A rank that holds it. What it holds begins elsewhere on each, but runs and units are the same.
  struct Candidate {
    std::uint32_t rank = 0;
    bool page_by_page = false;        // the tensors of a page adjoin on both sides
    std::vector<TensorPath> tensors;  // in order of their addresses at the source if page_by_page
  };

  std::uint32_t target = 0;
  std::uint32_t pattern = 0;          // index into GroupPaths::patterns
  std::vector<LayerIndex> layers;     // ascending; at least one
  std::vector<Candidate> candidates;  // at least one

  std::uint64_t bytes_per_token() const;  // over all layers
};

struct GroupPaths {
  std::vector<TokenPattern> patterns;
  std::vector<RankPath> paths;
};

// Paths of all groups together that a plan may have, which bounds what a peer's layout costs.
inline constexpr std::size_t kMaxPaths = std::size_t{1} << 16;

// The paths of every cache group; nullopt above kMaxPaths, or if finding them takes too long for
// layouts that could need so many. Both layouts are valid and describe the same model.
std::optional<std::vector<GroupPaths>> build_paths(const KvLayout& source, const KvLayout& target);

}  // namespace kvrail

#pragma once

#include <cstdint>
#include <vector>

#include "kvrail/ids.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

// The tokens of one request that a step computes. Chunks of a request follow each other without
// gaps, from the first token that the prefill engine does not have cached.
struct StepChunk {
  RequestId request;
  TokenRange tokens;
};

// One forward pass. Steps without prefill chunks are announced too (chunks empty).
struct StepPlan {
  std::vector<StepChunk> chunks;
  // The layers that the k-th signal completes, in order of the signals. Empty: signal k completes
  // layer k, for every layer of the layout.
  std::vector<std::vector<LayerIndex>> signal_map;
};

}  // namespace kvrail

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvrail/ids.h"
#include "kvrail/layer_counter.h"
#include "kvrail/step.h"
#include "messenger/layer_watcher.h"
#include "messenger/sender_table.h"

namespace kvrail {

// Ties forward passes to requests: what a step announces goes to the senders of its chunks, and
// what the watcher sees of it.
//
// Threads: any.
class StepDispatch {
 public:
  // Both must outlive it. Layers are 0 to layer_count - 1.
  StepDispatch(LayerWatcher& watcher, const SenderTable& senders, std::uint32_t layer_count);

  // Throws Error (kInvalidArgument) and then changes nothing: layers that do not exist or come
  // twice, chunks that do not follow each other; and what LayerWatcher::announce throws.
  StepId begin(const LayerCounter& counter, StepPlan plan);
  void discard(const LayerCounter& counter, StepId step) { watcher_.discard(counter, step); }
  void fail(const LayerCounter& counter, StepId step, const std::string& reason);

 private:
  std::vector<LayerIndex> check_map(const SignalMap& map) const;

  LayerWatcher& watcher_;
  const SenderTable& senders_;
  const std::uint32_t layer_count_;
  // Signal k completes layer k.
  std::shared_ptr<const SignalMap> every_layer_;
  std::shared_ptr<const std::vector<LayerIndex>> all_layers_;
};

}  // namespace kvrail

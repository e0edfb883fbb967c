#pragma once

#include <cstdint>

#include "kvrail/error.h"
#include "kvrail/ids.h"

namespace kvrail {

// What the layer watcher tells about one announced step.
//
// on_layer comes once per layer that a signal completed, in order of the signals; then the step
// ends in exactly one of the other three. Calls for one counter come one at a time, from the
// watcher's thread or from a thread that calls the watcher; on_layer may still come while the step
// is being failed by another thread. Implementations must not call the watcher.
class StepListener {
 public:
  virtual ~StepListener() = default;

  // `seen_ns`: CLOCK_MONOTONIC, when the signal was seen.
  virtual void on_layer(StepId step, LayerIndex layer, std::int64_t seen_ns) = 0;

  // A later step has begun and this one had its exact number of signals.
  virtual void on_step_finished(StepId step) = 0;
  virtual void on_step_failed(StepId step, const Status& reason) = 0;
  // It will not run, and nothing of it was signalled.
  virtual void on_step_discarded(StepId step) = 0;
};

}  // namespace kvrail

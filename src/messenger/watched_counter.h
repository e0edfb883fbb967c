#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "kvrail/layer_counter.h"
#include "messenger/step_listener.h"

namespace kvrail {

// The layers that the k-th signal of a step completes.
using SignalMap = std::vector<std::vector<LayerIndex>>;

// A listener's call that is due, made once no lock is held.
struct StepCall {
  enum class Kind { kLayer, kFinished, kFailed, kDiscarded };
  Kind kind;
  std::shared_ptr<StepListener> listener;
  StepId step;
  LayerIndex layer;
  std::int64_t seen_ns = 0;
  Status reason;
};
// Makes the calls, in order, and empties the list.
void deliver(std::vector<StepCall>& calls);

// The announced steps of one layer counter, oldest first, and what has been seen of them.
//
// Threads: one at a time (the watcher's lock).
class WatchedCounter {
 public:
  WatchedCounter() : counter_(std::make_shared<LayerCounter>()) {}

  const std::shared_ptr<LayerCounter>& counter() const { return counter_; }
  LayerCount seen() const { return seen_; }

  // Whether the oldest step would stay in the counter's history until it is settled if one more
  // were announced.
  bool has_room() const;
  StepId oldest() const { return steps_.front().id; }
  StepId announce(std::shared_ptr<const SignalMap> map, std::shared_ptr<StepListener> listener);

  void discard(StepId id, std::vector<StepCall>& calls);
  void fail(StepId id, const Status& reason, std::vector<StepCall>& calls);

  // Signals of an announced step are still to come.
  bool waits() const;

  struct News {
    bool any = false;
    std::uint64_t stray_signals = 0;  // that belong to no announced step
    StepId stray_step;
  };
  News look(std::int64_t now_ns, std::vector<StepCall>& calls);

  std::uint64_t steps_failed() const { return steps_failed_; }

 private:
  struct Step {
    StepId id;
    std::shared_ptr<const SignalMap> map;
    std::shared_ptr<StepListener> listener;  // null: failed, and waiting for the word to pass it
    std::size_t handed_on = 0;               // signals

    bool waits() const { return listener != nullptr && handed_on < map->size(); }
  };

  void settle(Step& step, std::int64_t now_ns, std::vector<StepCall>& calls);
  static void hand_on(Step& step, std::size_t signals, std::int64_t now_ns,
                      std::vector<StepCall>& calls);
  void end_failed(Step& step, std::string reason, std::vector<StepCall>& calls);

  const std::shared_ptr<LayerCounter> counter_;
  // The first may have had all its signals: it stays until a later step begins, since one more
  // signal would fail it.
  std::deque<Step> steps_;
  StepId last_announced_;
  LayerCount seen_;
  std::uint64_t steps_failed_ = 0;
};

}  // namespace kvrail

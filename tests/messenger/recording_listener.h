#pragma once

#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "messenger/step_listener.h"

namespace kvrail {

// Writes down what it is told, as text: "1:0" layer 0 of step 1, "1 finished", "1 failed", "1
// discarded". Threads: any.
class RecordingListener final : public StepListener {
 public:
  void on_layer(StepId step, LayerIndex layer, std::int64_t) override {
    add(fmt::format("{}:{}", step.value(), layer.value()));
  }
  void on_step_finished(StepId step) override { add(fmt::format("{} finished", step.value())); }
  void on_step_failed(StepId step, const Status& reason) override {
    add(fmt::format("{} failed", step.value()));
    const std::lock_guard lock(mutex_);
    reasons_.push_back(reason);
  }
  void on_step_discarded(StepId step) override { add(fmt::format("{} discarded", step.value())); }

  // What was told since the last call.
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(told_, {});
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return told_.size();
  }
  std::vector<Status> reasons() const {
    const std::lock_guard lock(mutex_);
    return reasons_;
  }

 private:
  void add(std::string text) {
    const std::lock_guard lock(mutex_);
    told_.push_back(std::move(text));
  }

  mutable std::mutex mutex_;
  std::vector<std::string> told_;
  std::vector<Status> reasons_;
};

}  // namespace kvrail

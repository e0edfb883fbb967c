#include "messenger/step_dispatch.h"

#include <utility>

#include <fmt/format.h>

#include "messenger/request_sender.h"

namespace kvrail {
namespace {

// A step between its announcement and its end.
class RunningStep final : public StepListener {
 public:
  explicit RunningStep(std::shared_ptr<const std::vector<LayerIndex>> layers)
      : layers_(std::move(layers)) {}

  void add(std::shared_ptr<RequestSender> sender, TokenRange tokens) {
    if (const auto binding = sender->announce(tokens, *layers_)) {
      chunks_.push_back({std::move(sender), *binding, tokens});
    }
  }

  void on_layer(StepId step, LayerIndex layer, std::int64_t seen_ns) override {
    for (const Chunk& chunk : chunks_) {
      chunk.sender->on_layer(chunk.binding, step, layer, chunk.tokens, seen_ns);
    }
  }
  void on_step_finished(StepId) override {}
  void on_step_failed(StepId, const Status& reason) override {
    for (const Chunk& chunk : chunks_) chunk.sender->fail_step(chunk.binding, reason);
  }
  void on_step_discarded(StepId) override { retract(); }

  void retract() {
    for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
      chunk->sender->retract(chunk->binding, chunk->tokens, *layers_);
    }
  }

 private:
  struct Chunk {
    std::shared_ptr<RequestSender> sender;
    RequestSender::Binding binding;
    TokenRange tokens;
  };
  const std::shared_ptr<const std::vector<LayerIndex>> layers_;
  std::vector<Chunk> chunks_;  // constant once the step is announced
};

}  // namespace

StepDispatch::StepDispatch(LayerWatcher& watcher, const SenderTable& senders,
                           std::uint32_t layer_count)
    : watcher_(watcher), senders_(senders), layer_count_(layer_count) {
  SignalMap map;
  for (std::uint32_t layer = 0; layer < layer_count; ++layer) map.push_back({LayerIndex(layer)});
  all_layers_ = std::make_shared<const std::vector<LayerIndex>>(check_map(map));
  every_layer_ = std::make_shared<const SignalMap>(std::move(map));
}

StepId StepDispatch::begin(const LayerCounter& counter, StepPlan plan) {
  auto map = every_layer_;
  auto layers = all_layers_;
  if (!plan.signal_map.empty()) {
    layers = std::make_shared<const std::vector<LayerIndex>>(check_map(plan.signal_map));
    map = std::make_shared<const SignalMap>(std::move(plan.signal_map));
  }
  const auto step = std::make_shared<RunningStep>(std::move(layers));
  try {
    for (const StepChunk& chunk : plan.chunks) {
      if (auto sender = senders_.find(chunk.request)) step->add(std::move(sender), chunk.tokens);
    }
    return watcher_.announce(counter, std::move(map), step);
  } catch (...) {
    step->retract();
    throw;
  }
}

void StepDispatch::fail(const LayerCounter& counter, StepId step, const std::string& reason) {
  watcher_.fail(counter, step, Status(ErrorCode::kStepFailed, reason));
}

std::vector<LayerIndex> StepDispatch::check_map(const SignalMap& map) const {
  std::vector<bool> seen(layer_count_, false);
  std::vector<LayerIndex> layers;
  for (const auto& signal : map) {
    for (const LayerIndex layer : signal) {
      if (layer.value() >= layer_count_) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("signal_map names layer {}; the layout has {}", layer.value(),
                                layer_count_));
      }
      if (seen[layer.value()]) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("signal_map names layer {} twice", layer.value()));
      }
      seen[layer.value()] = true;
      layers.push_back(layer);
    }
  }
  return layers;
}

}  // namespace kvrail

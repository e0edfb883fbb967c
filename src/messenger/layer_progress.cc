#include "messenger/layer_progress.h"

#include <algorithm>

#include <fmt/format.h>

namespace kvrail {

void LayerProgress::begin(std::uint32_t tokens) {
  for (std::uint32_t i = 0; i < layers_.size(); ++i) {
    layers_[i].announced = tokens;
    layers_[i].computed = tokens;
    make_ready(i);
  }
}

void LayerProgress::open(TokenRange sent) {
  sent_ = sent;
  layers_open_ = sent.empty() ? 0 : static_cast<std::uint32_t>(layers_.size());
  for (std::uint32_t i = 0; i < layers_.size(); ++i) {
    layers_[i].sent = sent.first;
    make_ready(i);
  }
}

std::string LayerProgress::announce(TokenRange tokens, std::span<const LayerIndex> layers) {
  if (tokens.empty()) {
    return fmt::format("its chunk [{}, {}) is empty", tokens.first, tokens.end);
  }
  for (const LayerIndex layer : layers) {
    const std::uint32_t announced = layers_[layer.value()].announced;
    if (announced != tokens.first) {
      return fmt::format(
          "its chunk [{}, {}) does not follow token {}, up to which layer {} is "
          "computed or announced",
          tokens.first, tokens.end, announced, layer.value());
    }
  }
  for (const LayerIndex layer : layers) layers_[layer.value()].announced = tokens.end;
  return {};
}

void LayerProgress::retract(TokenRange tokens, std::span<const LayerIndex> layers) {
  for (const LayerIndex index : layers) {
    Layer& layer = layers_[index.value()];
    layer.announced = std::max(layer.computed, std::min(layer.announced, tokens.first));
  }
}

bool LayerProgress::compute(LayerIndex index, TokenRange tokens, StepId step,
                            std::int64_t seen_ns) {
  Layer& layer = layers_[index.value()];
  if (layer.computed != tokens.first) return false;
  layer.computed = tokens.end;
  layer.step = step;
  layer.seen_ns = seen_ns;
  make_ready(index.value());
  return true;
}

std::optional<LayerProgress::Part> LayerProgress::take() {
  if (!sent_) return std::nullopt;
  while (!ready_.empty()) {
    const std::uint32_t index = ready_.front();
    ready_.pop_front();
    Layer& layer = layers_[index];
    layer.ready = false;
    const std::uint32_t end = std::min(layer.computed, sent_->end);
    if (layer.sent >= end) continue;
    const Part part{LayerIndex(index), {layer.sent, end}, layer.step, layer.seen_ns};
    layer.sent = end;
    if (end == sent_->end) --layers_open_;
    return part;
  }
  return std::nullopt;
}

void LayerProgress::rewind() {
  if (sent_) open(*sent_);
}

std::string LayerProgress::lacking() const {
  if (!sent_) return "no decode node has asked for it";
  constexpr std::size_t kMaxRanges = 4;
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t first = 0; first < layers_.size();) {
    const std::uint32_t computed = std::min(layers_[first].computed, sent_->end);
    std::size_t last = first;
    while (last + 1 < layers_.size() &&
           std::min(layers_[last + 1].computed, sent_->end) == computed) {
      ++last;
    }
    if (computed < sent_->end && ++ranges <= kMaxRanges) {
      text += first == last
                  ? fmt::format("{}layer {} has", ranges > 1 ? ", " : "", first)
                  : fmt::format("{}layers {} to {} have", ranges > 1 ? ", " : "", first, last);
      text += fmt::format(" {} of {} tokens", computed, sent_->end);
    }
    first = last + 1;
  }
  if (ranges > kMaxRanges) text += ", ...";
  return ranges == 0 ? "every layer is computed" : text;
}

void LayerProgress::make_ready(std::uint32_t index) {
  Layer& layer = layers_[index];
  if (layer.ready) return;
  layer.ready = true;
  ready_.push_back(index);
}

}  // namespace kvrail

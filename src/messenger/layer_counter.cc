#include "kvrail/layer_counter.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kSignalMask = LayerCounter::kMaxSignals;

LayerCount unpack(std::uint64_t word) {
  return {StepId(word >> 16), static_cast<std::uint32_t>(word & kSignalMask)};
}

}  // namespace

void LayerCounter::start(StepId step) {
  // One writer: what is loaded here stays the word's value until it is stored below.
  const std::uint64_t last = word_.load(std::memory_order_relaxed);
  if (step <= unpack(last).step) return;
  history_[unpack(last).step.value() % kHistory].store(last, std::memory_order_relaxed);
  // Release: pairs with read(); who sees the new step sees the history of the last one.
  word_.store(step.value() << kSignalBits, std::memory_order_release);
}

void LayerCounter::signal() {
  if ((word_.load(std::memory_order_relaxed) & kSignalMask) == kMaxSignals) return;
  // Release: pairs with read(); who sees the signal sees what the layer wrote.
  word_.fetch_add(1, std::memory_order_release);
}

LayerCount LayerCounter::read() const {
  // Acquire: pairs with start() and signal().
  return unpack(word_.load(std::memory_order_acquire));
}

LayerCount LayerCounter::history(StepId step) const {
  // Ordered by the read() that showed a later step.
  return unpack(history_[step.value() % kHistory].load(std::memory_order_relaxed));
}

}  // namespace kvrail

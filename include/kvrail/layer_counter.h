#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "kvrail/ids.h"

namespace kvrail {

// Step number (48 bits) and signals (16 bits) of one layer counter's word.
struct LayerCount {
  StepId step;
  std::uint32_t signals = 0;

  bool operator==(const LayerCount&) const = default;
};

// The word through which a forward pass says how far it is: step << 16 | signals.
//
// One counter per independently scheduled stream: the lead rank of a tensor-parallel group, each
// pipeline stage, each data-parallel rank. Only one agent writes a counter: for host engines the
// thread that runs the pass, through start() and signal(). A step that ends leaves its final count
// in a short history, so that a watcher which comes late still learns whether it was whole.
//
// Invariants
//  1. The word's step only grows; its signals are those of that step and of no other.
//  2. history(s) is the word that start() of the following step replaced.
//
// Threads: start() and signal() by the one writer; everything else by any thread.
class LayerCounter {
 public:
  // Steps behind the current one whose final count is kept.
  static constexpr std::uint32_t kHistory = 16;
  // Where the signals of a step stop counting, so that they never carry into the step number. A
  // step may be announced with one less, so that a signal too many is told from the last one.
  static constexpr std::uint32_t kMaxSignals = 65'535;

  LayerCounter() = default;
  LayerCounter(const LayerCounter&) = delete;
  LayerCounter& operator=(const LayerCounter&) = delete;

  // The pass of `step` begins: in the pass's own order, ahead of its first signal. Steps that were
  // discarded are left out. A step that is not later than the running one is ignored.
  void start(StepId step);

  // The next signal of the running step: everything that the step wrote before it is visible to
  // whoever sees it.
  void signal();

  // What the word says now (acquire: pairs with start() and signal()).
  LayerCount read() const;

  // The final count of a step before the current one; signals of a step that never started or is
  // more than kHistory steps behind are reported under another step number.
  LayerCount history(StepId step) const;

 private:
  static constexpr std::uint32_t kSignalBits = 16;

  alignas(64) std::atomic<std::uint64_t> word_{0};
  alignas(64) std::array<std::atomic<std::uint64_t>, kHistory> history_{};
};

}  // namespace kvrail

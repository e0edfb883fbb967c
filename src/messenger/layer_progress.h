#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvrail/ids.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

// How far each layer of one request is: announced by steps, computed, sent. "Send what is computed
// and not sent" is the one rule, whatever made it so: a chunk, a prefix that was cached, or a
// decode request that came after the prefill had begun.
//
// Invariant, for each layer: computed <= announced, in tokens from the prompt's start, and what is
// taken is computed then.
//
// Threads: one at a time (the sender's lock).
class LayerProgress {
 public:
  explicit LayerProgress(std::uint32_t layer_count) : layers_(layer_count) {}

  // All layers have the first `tokens` tokens, and no more is announced: for each binding of pages,
  // before its steps. What was sent before stays sent.
  void begin(std::uint32_t tokens);

  // The tokens that cross, once they are known.
  void open(TokenRange sent);

  // A step will compute `tokens` of `layers`. Says what is wrong, and then changes nothing, if they
  // do not follow what was announced before; empty if all is well.
  std::string announce(TokenRange tokens, std::span<const LayerIndex> layers);
  // That step will not run, nor will any after it that was announced on top of it.
  void retract(TokenRange tokens, std::span<const LayerIndex> layers);

  // A layer has `tokens` too. False if tokens before them are missing.
  bool compute(LayerIndex layer, TokenRange tokens, StepId step, std::int64_t seen_ns);

  // Computed and not sent: from now on, sent.
  struct Part {
    LayerIndex layer;
    TokenRange tokens;
    StepId step;  // 0: before any step
    std::int64_t seen_ns = 0;
  };
  std::optional<Part> take();

  // Nothing was sent: what is computed is to be taken once more.
  void rewind();

  // What is lacking, for people: "layers 3 to 15 have 16 of 29 tokens".
  std::string lacking() const;

  // Everything that crosses has been taken.
  bool complete() const { return sent_.has_value() && layers_open_ == 0; }

 private:
  struct Layer {
    std::uint32_t announced = 0;
    std::uint32_t computed = 0;
    std::uint32_t sent = 0;
    bool ready = false;  // is in ready_
    StepId step;         // the last that computed something
    std::int64_t seen_ns = 0;
  };
  void make_ready(std::uint32_t layer);

  std::vector<Layer> layers_;
  std::optional<TokenRange> sent_;
  std::uint32_t layers_open_ = 0;    // have tokens to send
  std::deque<std::uint32_t> ready_;  // in the order in which they were computed
};

}  // namespace kvrail

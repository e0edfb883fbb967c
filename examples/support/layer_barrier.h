#pragma once

#include <cstdint>
#include <functional>

namespace mock_engine {

// Where the ranks of a node meet after each layer, as in the reduction of a layer's output: two
// words in memory that the lead process and every rank's process map, zero at first.
//
// The lead lets the next layer begin, every rank computes its share and arrives; when all have, the
// lead's counter is signalled. Nobody waits for a process that has died: whoever waits asks
// `give_up` a few times a second.
//
// Threads: one per process.
class LayerBarrier {
 public:
  static constexpr std::uint64_t kBytes = 2 * sizeof(std::uint32_t);

  explicit LayerBarrier(std::byte* shared);

  // Lead: all ranks may compute the next layer; false if one will never have.
  void begin_layer();
  bool wait_for_all(std::uint32_t ranks, const std::function<bool()>& give_up);

  // Rank: waits for the next layer to begin, false if it never will; then has computed it.
  bool wait_for_layer(const std::function<bool()>& give_up);
  void arrive();

 private:
  std::uint32_t* begun_;    // layers, ever
  std::uint32_t* arrived_;  // ranks, over all layers
  std::uint32_t layers_ = 0;
};

}  // namespace mock_engine

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kvrail/kv_builders.h"
#include "kvrail/shared_allocation.h"
#include "support/layer_barrier.h"
#include "support/rank_cache.h"
#include "support/rank_messages.h"
#include "support/rank_process.h"

namespace mock_engine {

// Part of one request that one forward pass computes.
struct PassChunk {
  kvrail::RequestId request;
  PromptPtr prompt;
  kvrail::TokenRange tokens;
  kvrail::RequestPages pages;
  std::optional<kvrail::ContextSlot> slot;
};

// A rank's process has ended before its node. The text says which and how.
class RankLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The ranks of a node, each a process of its own, as their lead process sees them: their memory,
// and what they can be told to do with it. All of them throw RankLost.
//
// Threads: lost() and pids() by any; everything else by one at a time.
class Ranks {
 public:
  // Starts them and maps their memory. `node` names it in messages.
  Ranks(const kvrail::KvCacheOptions& cache, std::string node);
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::uint32_t count() const { return static_cast<std::uint32_t>(ranks_.size()); }
  std::span<std::byte> memory(std::uint32_t rank) const { return ranks_.at(rank)->memory(); }
  // Once, before what follows.
  void set_layout(const kvrail::KvLayout& layout);

  // A forward pass: begin_pass(), then run_layer() for each layer, which returns when all ranks
  // have computed it.
  void begin_pass(const std::vector<PassChunk>& chunks);
  void run_layer();

  // As in RankCache, summed over the ranks of the pages' data-parallel rank.
  Damage check(const Prompt& prompt, const kvrail::RequestPages& pages,
               std::optional<kvrail::ContextSlot> slot, bool arrived);
  std::uint64_t count_wrong(const Prompt& prompt, kvrail::TokenRange tokens,
                            const kvrail::RequestPages& pages);
  std::uint64_t count_not_poison(const kvrail::RequestPages& pages,
                                 std::optional<kvrail::ContextSlot> slot = std::nullopt);
  void poison(const kvrail::RequestPages& pages,
              std::optional<kvrail::ContextSlot> slot = std::nullopt);
  void poison_all();

  // Which rank has ended, and how; none if all live.
  std::optional<std::string> lost() const;
  std::vector<int> pids() const;
  // For poll(2): each has POLLHUP when its rank has ended.
  std::vector<int> descriptors() const;

 private:
  Damage ask(const Message& message, std::optional<kvrail::DpRank> dp_rank);

  const std::string node_;
  kvrail::SharedAllocation meeting_place_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  LayerBarrier barrier_;
  std::vector<kvrail::DpRank> dp_ranks_;  // by rank
};

}  // namespace mock_engine

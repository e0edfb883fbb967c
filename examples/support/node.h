#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvrail/kv_builders.h"
#include "kvrail/kv_messenger.h"
#include "support/events.h"
#include "support/options.h"
#include "support/ranks.h"

namespace mock_engine {

// The sizes of a node's KV cache as the options of its role have them. Throws std::runtime_error if
// the memory holds no page, or whatever is wrong with the model or the sharding.
kvrail::KvCacheOptions cache_options(const Options& options);

// Throws std::runtime_error if a prompt needs more pages than the node's pools have.
void check_prompts_fit(const std::vector<PromptPtr>& prompts, const kvrail::KvCacheOptions& cache);

// What both engines stand on: the processes of the node's ranks, their memory, and the messenger
// that it is registered with.
class Node {
 public:
  // Throws kvrail::Error, RankLost and what cache_options throws.
  explicit Node(const Options& options);

  const kvrail::KvLayout& layout() const { return layout_; }
  Ranks& ranks() { return ranks_; }
  kvrail::KvMessenger& messenger() { return *messenger_; }

  // The "ranks" event.
  Event ranks_event() const;
  // For the "traffic" event: what was sent by rail and by rank.
  Event traffic_event() const;

  // Ends all requests by their callbacks; the schedulers must still be there.
  void close() { messenger_.reset(); }

 private:
  const std::string role_;
  kvrail::KvCacheOptions cache_options_;
  Ranks ranks_;  // before the messenger has threads, and outlives it
  std::unique_ptr<kvrail::KvMessenger> messenger_;
  kvrail::KvLayout layout_;
};

}  // namespace mock_engine

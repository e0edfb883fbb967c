#pragma once

#include <memory>
#include <vector>

#include "kvrail/kv_builders.h"
#include "kvrail/kv_messenger.h"
#include "support/host_memory.h"
#include "support/kv_cache.h"
#include "support/options.h"

namespace mock_engine {

// The sizes of a node's KV cache as the options of its role have them. Throws std::runtime_error if
// the memory holds no page, or whatever is wrong with the model.
kvrail::KvCacheOptions cache_options(const Options& options);

// Throws std::runtime_error if a prompt needs more pages than the node's pool has.
void check_prompts_fit(const std::vector<PromptPtr>& prompts, const kvrail::KvCacheOptions& cache);

// What both engines stand on: memory for each rank, registered with a messenger.
class Node {
 public:
  // Throws kvrail::Error and what cache_options throws.
  explicit Node(const Options& options);

  const kvrail::KvCacheOptions& cache_options() const { return cache_options_; }
  const kvrail::KvLayout& layout() const { return layout_; }
  KvCache& cache() { return *cache_; }
  kvrail::KvMessenger& messenger() { return *messenger_; }

  // Ends all requests by their callbacks; the schedulers must still be there.
  void close() { messenger_.reset(); }

 private:
  kvrail::KvCacheOptions cache_options_;
  std::vector<HostMemory> memory_;  // one per rank; outlives the messenger
  std::unique_ptr<kvrail::KvMessenger> messenger_;
  kvrail::KvLayout layout_;
  std::unique_ptr<KvCache> cache_;
};

}  // namespace mock_engine

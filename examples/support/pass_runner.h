#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kvrail/layer_counter.h"
#include "kvrail/transfer_plan.h"
#include "support/kv_cache.h"
#include "support/trace.h"

namespace mock_engine {

// Part of one request that one forward pass computes.
struct PassChunk {
  kvrail::RequestId request;
  PromptPtr prompt;
  kvrail::TokenRange tokens;
  PageTable pages;
};

struct Pass {
  kvrail::StepId step;
  std::vector<PassChunk> chunks;
};

// CLOCK_MONOTONIC nanoseconds.
struct PassTimes {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<std::int64_t> signal_ns;  // one per layer
};

// The GPU of the mock: runs passes in order on a thread of its own. A layer fills its part of the
// pages, takes at least the time per layer, and signals the counter.
//
// Threads: push() by any thread; `done` is called on the runner's thread. The destructor runs
// what was pushed first.
class PassRunner {
 public:
  using Done = std::function<void(const Pass& pass, const PassTimes& times)>;

  PassRunner(KvCache& cache, std::shared_ptr<kvrail::LayerCounter> counter,
             std::chrono::nanoseconds time_per_layer, Done done);
  ~PassRunner();
  PassRunner(const PassRunner&) = delete;
  PassRunner& operator=(const PassRunner&) = delete;

  void push(Pass pass);

 private:
  void work();
  PassTimes run(const Pass& pass);

  KvCache& cache_;
  const std::shared_ptr<kvrail::LayerCounter> counter_;
  const std::chrono::nanoseconds time_per_layer_;
  const Done done_;

  std::mutex mutex_;  // guards waiting_ and stopping_
  std::condition_variable pushed_;
  std::deque<Pass> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mock_engine

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kvrail/layer_counter.h"
#include "kvrail/transfer_plan.h"
#include "support/ranks.h"

namespace mock_engine {

struct Pass {
  kvrail::StepId step;
  std::vector<PassChunk> chunks;
};

// CLOCK_MONOTONIC nanoseconds.
struct PassTimes {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<std::int64_t> signal_ns;  // one per layer
  std::string failure;                  // why the pass broke off; empty if it did not
};

// The GPUs of the mock: runs passes in order on a thread of its own. For each layer all ranks fill
// their parts of the pages; when the last one has, and the time per layer is over, the counter is
// signalled, once for all of them.
//
// Threads: push() by any thread; `done` is called on the runner's thread. The destructor runs
// what was pushed first. After a rank is lost all passes fail.
class PassRunner {
 public:
  using Done = std::function<void(const Pass& pass, const PassTimes& times)>;

  PassRunner(Ranks& ranks, std::uint32_t layers, std::shared_ptr<kvrail::LayerCounter> counter,
             std::chrono::nanoseconds time_per_layer, Done done);
  ~PassRunner();
  PassRunner(const PassRunner&) = delete;
  PassRunner& operator=(const PassRunner&) = delete;

  void push(Pass pass);

 private:
  void work();
  PassTimes run(const Pass& pass);

  Ranks& ranks_;
  const std::uint32_t layers_;
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

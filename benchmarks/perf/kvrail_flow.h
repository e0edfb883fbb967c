#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "kvrail/transfer_engine.h"
#include "perf/outcome.h"
#include "perf/page_plan.h"
#include "perf/transport.h"

namespace kvrail::perf {

// The pages of a plan as the runs of submissions.
struct RunLists {
  explicit RunLists(const PagePlan& plan);

  std::vector<std::vector<WriteRun>> lists;
  std::uint64_t units = 0;  // of all of them
};

// Where lists go: `list` is one without runs.
struct Route {
  PeerId peer;
  WriteList list;
};

// Submits lists over and over, each from the callback of an earlier one and by the next of the
// routes. Shared with the callbacks, which may outlive a run() that failed; the engine and the
// lists outlive them.
//
// Threads: one, beside the engine's worker.
class KvrailFlow : public std::enable_shared_from_this<KvrailFlow> {
 public:
  // At least one route.
  KvrailFlow(TransferEngine& engine, std::vector<Route> routes, const RunLists& runs);

  // Once: so many times all lists, `depth` of them outstanding. Returns when all are complete.
  SendReport run(std::uint64_t passes, std::uint32_t depth);

 private:
  using Clock = std::chrono::steady_clock;

  void submit_next(Clock::time_point now);

  TransferEngine& engine_;
  const std::vector<Route> routes_;
  const RunLists& runs_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> writes_{0};
  std::vector<double> latencies_us_;  // of the submissions, in the order of their completions
  Outcome outcome_;
};

}  // namespace kvrail::perf

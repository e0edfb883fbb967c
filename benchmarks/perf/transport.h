#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/channel.h"
#include "perf/kv_plan.h"
#include "perf/page_plan.h"
#include "perf/pattern_memory.h"

namespace kvrail::perf {

enum class Role { kSource, kTarget };

// A layer of one request, on the source's clock (CLOCK_MONOTONIC).
struct LayerTimes {
  std::int64_t signal_ns = 0;  // given by the pass
  std::int64_t seen_ns = 0;    // by the watcher
  std::int64_t first_post_ns = 0;
  std::int64_t last_completion_ns = 0;
};

// What one pass or more over the pages took at the source, beside time.
struct SendReport {
  std::uint64_t writes = 0;               // operations on the network
  std::vector<double> list_latencies_us;  // from submission to completion, where lists are known
  std::vector<LayerTimes> layers;         // request after request, where there are requests
};

// What the target saw, where there are requests: one entry each.
struct ArrivalReport {
  std::vector<double> request_to_ready_us;
  std::vector<std::int64_t> last_arrival_ns;  // on the target's clock
};

// One way of moving pages: one side of it. Both sides make the same calls in the same order and
// talk over the channel in between. Failures are thrown as Error. Threads: one.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual void connect(Channel& channel, Role role) = 0;
  // Registers the memory and tells the other side. Memory and plan outlive the next open() or
  // close(). `kv` is there if the pages are those of a request.
  virtual void open(const PagePlan& plan, const KvPlan* kv, const PatternMemory& memory,
                    Channel& channel) = 0;
  // Lets go of the memory.
  virtual void close() = 0;

  // A round. The target arms itself for so many passes; the source sends them with what arm() gave,
  // and has no write outstanding when send() returns.
  virtual Json arm(std::uint64_t passes) = 0;
  virtual SendReport send(std::uint64_t passes, const Json& armed) = 0;
  virtual ArrivalReport wait_arrived() = 0;
  // Called by the source over and over until the target has answered.
  virtual void progress() {}
  // Whether progress() is to be called at all.
  virtual bool needs_progress() const { return false; }

  // A round of messages: the first page is written to the target, whose arrival makes it write the
  // page back, to the source's echo_offset(). The source arms itself, then the target with what
  // that gave. ping() takes what arm_pong() gave and returns the time of each message in
  // microseconds; pong() returns after the last.
  virtual Json arm_ping(std::uint32_t count) = 0;
  virtual Json arm_pong(std::uint32_t count, const Json& armed_source) = 0;
  virtual std::vector<double> ping(std::uint32_t count, const Json& armed_target) = 0;
  virtual void pong(std::uint32_t count) = 0;
};

}  // namespace kvrail::perf

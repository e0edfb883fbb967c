#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/channel.h"
#include "perf/page_plan.h"
#include "perf/pattern_memory.h"

namespace kvrail::perf {

enum class Role { kSource, kTarget };

// What one pass or more over the pages took at the source, beside time.
struct SendReport {
  std::uint64_t writes = 0;               // operations on the network
  std::vector<double> list_latencies_us;  // from submission to completion, where lists are known
};

// One way of moving pages: one side of it. Both sides make the same calls in the same order and
// talk over the channel in between. Failures are thrown as Error. Threads: one.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual void connect(Channel& channel, Role role) = 0;
  // Registers the memory and tells the other side. Both outlive the next open().
  virtual void open(const PagePlan& plan, const PatternMemory& memory, Channel& channel) = 0;

  // A round. The target arms itself for so many passes; the source sends them with what arm() gave,
  // and has no write outstanding when send() returns.
  virtual Json arm(std::uint64_t passes) = 0;
  virtual SendReport send(std::uint64_t passes, const Json& armed) = 0;
  virtual void wait_arrived() = 0;
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

#pragma once

#include <cstdint>
#include <sstream>
#include <string>

#include "faults/fault_node.h"
#include "faults/inbox.h"
#include "faults/tally.h"
#include "kvrail/event_queue.h"
#include "layout/random.h"

namespace kvrail {

// The loop of an engine in a process of its own, which does what the supervisor says:
//
//   settle   once nothing is open: look at all memory, and say "settled" and what the process holds
//   tell     say "open" and what is
//   end      end the messenger, look at all memory, say "ended"
//
// and what a side understands. It says "stats" and counts from time to time, and throws Violation.
//
// Threads: one.
class NodeEngine {
 public:
  NodeEngine(NodeRole role, const NodeSetup& setup, ProcessChannel& channel);
  virtual ~NodeEngine() = default;

  void run();
  std::string last_log_lines() const { return node_.last_log_lines(); }

 protected:
  // Longer than anything takes on a busy machine while this process runs.
  static constexpr std::int64_t kHangMs = 8000;

  virtual void on_command(const std::string& verb, std::istringstream& rest) = 0;
  virtual void on_event(Event& event) = 0;
  // Whatever is due; false if nothing is, until something comes.
  virtual bool work() = 0;
  // The first request that is open, as text; empty if there is none.
  virtual std::string open_text() const = 0;
  // The first that has been for too long.
  virtual std::string overdue_text() const = 0;

  FaultNode& node() { return node_; }
  const NodeSetup& setup() const { return setup_; }
  Random& random() { return random_; }
  Tally& tally() { return tally_; }
  void say(const std::string& text) { kvrail::say(channel_, text); }
  // Time in which this process ran: none passes while it is stopped.
  std::int64_t active_ms() const { return active_ns_ / 1'000'000; }
  bool overdue(std::int64_t since_ms) const { return active_ms() - since_ms > kHangMs; }
  // "in 1 of `times` cases"; never if calm, nor at the end.
  bool mischief(std::uint32_t times) { return !setup_.calm && !ended_ && seldom(random_, times); }

 private:
  void command(const std::string& text);
  void poll_events();
  void tick();
  void send_stats();
  void try_to_settle();
  void wait(bool busy);

  const NodeSetup setup_;
  ProcessChannel& channel_;
  Inbox inbox_;
  FaultNode node_;
  Random random_;
  Tally tally_;
  std::int64_t last_ns_ = 0;
  std::int64_t active_ns_ = 0;
  std::int64_t stats_sent_ms_ = 0;
  std::uint64_t links_replaced_ = 0;
  bool settling_ = false;
  std::int64_t settling_since_ms_ = 0;
  bool ended_ = false;
};

}  // namespace kvrail

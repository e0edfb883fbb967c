#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "faults/node_process.h"
#include "faults/tally.h"
#include "layout/random.h"
#include "support/process_deadline.h"

namespace kvrail {

class ScriptInForce;

// A prefill and a decode process that serve each other, round after round, while this one kills and
// stops them. What is decided follows from the seed; when it happens depends on the machine.
//
// A round is over when all its requests are. Then every process that lives must have nothing open,
// all of its memory as it was left, and hold as many threads and descriptors as at first.
//
// Threads: one.
class Campaign {
 public:
  // The processes do without faults, and rounds are longer, if `calm`.
  Campaign(std::string provider, std::uint64_t seed, bool calm, Tally& tally);
  ~Campaign();

  // Throws Violation.
  void run_round(std::uint32_t requests);
  // All processes end well. Throws Violation.
  void end();

  const NodeUsage& prefill_usage() const { return prefill_usage_; }
  const NodeUsage& decode_usage() const { return decode_usage_; }
  // What was done in this round, for people.
  const std::string& history() const { return history_; }

 private:
  enum class Side { kPrefill, kDecode };

  std::unique_ptr<NodeProcess> start(const char* role);
  void start_prefill();
  void start_decode();
  NodeProcess& node(Side side) { return side == Side::kPrefill ? *prefill_ : *decode_; }

  void fault();
  void kill(Side side);
  void stop(NodeProcess& process);
  void stop_shortly(Side side);
  void stop_for_long(Side side);
  void replace(Side side);
  void wake_zombies();
  void script_fault(bool lossy);

  // Hears what every process says, for so long or until `until` holds. True if it does.
  template <class Condition>
  bool hear_all(std::chrono::milliseconds time, Condition until);
  void hear(NodeProcess& process);
  void on_text(NodeProcess& process, const std::string& text);
  void settle(NodeProcess& process, NodeUsage& usage);
  static void check_resident(NodeProcess& process, const NodeUsage& usage);
  void end(NodeProcess& process);
  void note(const std::string& what);

  const std::string provider_;
  const bool calm_;
  Tally& tally_;
  Random random_;
  std::uint32_t shape_ = 0;
  bool gentle_ = false;  // nobody is killed or given up: at most one NIC fails
  std::uint32_t generation_ = 0;
  // Beyond those that were held first: sockets are opened when the first write needs them.
  std::uint64_t descriptors_to_come_ = 3;
  std::unique_ptr<ScriptInForce> script_;  // of the scripted provider
  std::unique_ptr<NodeProcess> prefill_;
  std::unique_ptr<NodeProcess> decode_;
  std::vector<std::unique_ptr<NodeProcess>> zombies_;
  NodeUsage prefill_usage_;
  NodeUsage decode_usage_;
  NodeProcess* settling_ = nullptr;
  std::string settled_;  // what it said
  std::uint32_t requests_ = 0;
  bool done_ = false;
  bool ending_ = false;
  bool lost_ = false;  // told by any process since this was last reset
  std::string history_;
};

}  // namespace kvrail

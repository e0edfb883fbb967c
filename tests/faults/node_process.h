#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "faults/fault_node.h"
#include "faults/inbox.h"
#include "support/process_child.h"

namespace kvrail {

// What a process holds when nothing is open, as it says itself.
struct NodeUsage {
  std::uint64_t peers = 0;
  std::uint64_t threads = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t resident_bytes = 0;

  // Of "peers=1 threads=5 ..."; throws Violation for anything else.
  static NodeUsage parse(const std::string& text);
};

// A process of the campaign, as the supervisor sees it. Ends with it.
//
// Threads: one.
class NodeProcess {
 public:
  // `role` is the word that the program is started with.
  NodeProcess(const std::string& role, const NodeSetup& setup)
      : name_(role + " " + std::to_string(setup.generation)),
        child_(std::make_unique<ChildProcess>(role)),
        inbox_(std::make_unique<Inbox>(child_->channel())) {
    say(setup.text());
  }

  const std::string& name() const { return name_; }
  void say(const std::string& text) { kvrail::say(child_->channel(), text); }
  // The next thing that it said; none if there is none yet. Throws Violation where it says that one
  // was found, and if it has ended without being told to.
  std::optional<std::string> poll();
  int descriptor() const { return inbox_->descriptor(); }

  void kill() { child_->kill(); }
  // False if it does not stop in time.
  bool stop() { return stopped_ = child_->stop(); }
  void resume() {
    child_->resume();
    stopped_ = false;
  }
  bool stopped() const { return stopped_; }
  // After it was told to end. Throws Violation if it does not end well.
  void expect_exit();

  std::string address;           // of a prefill node, once it has said so
  std::optional<NodeUsage> own;  // what it held when it first settled with one peer
  std::uint32_t rounds = 0;      // that it settled after
  std::uint64_t warm_resident_bytes = 0;

 private:
  const std::string name_;
  std::unique_ptr<ChildProcess> child_;
  std::unique_ptr<Inbox> inbox_;  // reads the child's channel
  bool stopped_ = false;
};

}  // namespace kvrail

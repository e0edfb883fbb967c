#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "faults/node_engine.h"

namespace kvrail {

// A prefill engine that runs prompts in random chunks, and sometimes discards or spoils a step,
// preempts, rejects or fails a request. What it is given back it overwrites at once.
//
// It says "address HOST:PORT" first, and "lost" when a peer is.
class PrefillEngine : public NodeEngine {
 public:
  PrefillEngine(const NodeSetup& setup, ProcessChannel& channel)
      : NodeEngine(NodeRole::kPrefill, setup, channel) {
    say("address " + node().messenger().listen_address());
  }

 private:
  enum class State {
    kQueued,      // waits for pages
    kBound,       // runs
    kPreempting,  // its pages are asked back
    kEnding,      // given up by either side
  };
  struct Request {
    std::string external_id;
    std::uint64_t seed = 0;
    std::uint32_t end = 0;  // of the tokens that are computed here
    std::uint32_t tokens = 0;
    bool wants_context = false;
    State state = State::kQueued;
    std::vector<PageIndex> pages;
    std::optional<ContextSlot> slot;
    std::uint32_t computed = 0;
    bool context_filled = false;
    std::int64_t since_ms = 0;
    std::optional<std::int64_t> give_up_at_ms;  // if it was expected
  };
  struct Chunk {
    RequestId id;
    TokenRange tokens;
  };
  struct Step {
    StepId id;
    std::vector<Chunk> chunks;
  };

  void on_command(const std::string&, std::istringstream&) override {}
  void on_event(Event& event) override;
  bool work() override;
  std::string open_text() const override;
  std::string overdue_text() const override;

  void on_requested(const PrefillRequest& asked);
  void expect_later(std::uint64_t seed);
  void on_cancelled(const CancelledEvent& event);
  void on_released(const PagesReleasedEvent& event);
  Request& open(RequestId id, const char* told);
  bool bind(RequestId id, Request& request);
  void interfere(RequestId id, Request& request);
  void preempt(RequestId id);
  // Announces what follows `from`, the ends of the chunks announced before.
  Step announce(std::map<RequestId, std::uint32_t>& from);
  void run_step(const Step& step);
  bool run_steps();
  void finish_context(RequestId id, Request& request);
  void give_back(Request& request);
  std::string text(RequestId id, const Request& request) const;

  std::map<RequestId, Request> requests_;
};

}  // namespace kvrail

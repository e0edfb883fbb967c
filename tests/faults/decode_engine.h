#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "faults/node_engine.h"

namespace kvrail {

// A decode engine that asks for random prompts, changes its mind, and compares every byte of what
// comes. Understands, besides:
//
//   connect HOST:PORT  says "connected", or "refused" and why; "lost" when that peer is lost
//   round N            asks for N more requests; says "done" when they are over
//   abandon            asks for no more
//   hurry 0|1          whether every request has a deadline
class DecodeEngine : public NodeEngine {
 public:
  DecodeEngine(const NodeSetup& setup, ProcessChannel& channel)
      : NodeEngine(NodeRole::kDecode, setup, channel) {}

 private:
  enum class State { kAsked, kFailed, kHeld };
  struct Request {
    std::uint64_t seed = 0;
    std::uint32_t tokens = 0;
    std::vector<PageIndex> pages;
    std::optional<ContextSlot> slot;
    State state = State::kAsked;
    std::int64_t since_ms = 0;
    std::optional<std::int64_t> cancel_at_ns;
    bool cancel_again = false;
    std::int64_t give_back_at_ns = 0;
  };

  void on_command(const std::string& verb, std::istringstream& rest) override;
  void on_event(Event& event) override;
  bool work() override;
  std::string open_text() const override;
  std::string overdue_text() const override;

  void connect(const std::string& address);
  bool ask();
  void cancel_when_due(RequestId id, Request& request, std::int64_t now);
  Request& asked(RequestId id, const char* told);
  void on_ready(const ReadyEvent& event);
  void on_failed(const FailedEvent& event);
  void on_quiescent(const QuiescentEvent& event);
  void check(const Request& request, const char* when);
  void give_back(RequestId id);
  std::string text(RequestId id, const Request& request) const;

  std::optional<PeerId> peer_;
  std::string peer_address_;
  std::uint32_t asked_count_ = 0;
  std::uint32_t left_ = 0;
  bool in_round_ = false;
  bool hurry_ = false;
  std::map<RequestId, Request> requests_;
};

}  // namespace kvrail

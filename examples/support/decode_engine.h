#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvrail/event_queue.h"
#include "kvrail/kv_messenger.h"
#include "support/background.h"
#include "support/decode_pages.h"
#include "support/events.h"
#include "support/ranks.h"
#include "support/trace.h"

namespace mock_engine {

struct DecodeEngineOptions {
  std::uint32_t concurrency = 0;  // requests open at a time
  // This node takes the requests whose number leaves the remainder `index`.
  std::uint32_t index = 0;
  std::uint32_t of = 1;
};

// An inference engine's decode side in small, with a loop of its own over kvrail's EventQueue: asks
// for prefills as long as it has pages, checks what arrives byte by byte, and frees the pages. It
// generates no tokens.
//
// Threads: one, besides the one that checks. Everything is ended when run() returns.
class DecodeEngine {
 public:
  // Marks all pages as not to be written.
  DecodeEngine(kvrail::KvMessenger& messenger, kvrail::EventQueue& queue,
               const kvrail::KvLayout& layout, Ranks& ranks, DecodeEngineOptions options,
               EventSink events);

  // A prefill node to send requests to; at least one before run().
  void add_peer(kvrail::PeerId id, const std::string& name) { peers_.push_back({id, name}); }

  // Serves all prompts, or sees them fail. True if all arrived whole, nothing was written elsewhere
  // and every page is free again. Each prompt must fit into the pools. Throws RankLost.
  bool run(const std::vector<PromptPtr>& prompts);

 private:
  struct Peer {
    kvrail::PeerId id;
    std::string name;
    bool lost = false;
  };
  struct Job {
    PromptPtr prompt;
    Peer peer;
    Holding held;
    kvrail::Status result;
    kvrail::ReceiveReport report;
    std::int64_t ready_ns = 0;
    Damage damage;
  };
  using JobPtr = std::shared_ptr<Job>;

  bool start_next(const std::vector<PromptPtr>& prompts);
  const Peer* choose_peer(std::uint32_t number) const;
  void ask(const JobPtr& job);
  void wait();
  void dispatch(const kvrail::Event& event);
  void handle(const kvrail::ReadyEvent& event);
  void handle(const kvrail::FailedEvent& event);
  void handle(const kvrail::QuiescentEvent& event);
  void handle(const kvrail::PeerLostEvent& event);
  void check_and_release(const JobPtr& job);
  void end(const Job& job);
  std::uint64_t check_all_pages();
  Event pages_event();

  kvrail::KvMessenger& messenger_;
  kvrail::EventQueue& queue_;
  Ranks& ranks_;
  const DecodeEngineOptions options_;
  const EventSink events_;
  std::vector<Peer> peers_;
  DecodePages pages_;
  std::map<kvrail::RequestId, JobPtr> jobs_;  // those that kvrail has not ended
  std::uint32_t started_ = 0;
  std::uint32_t ended_ = 0;
  bool all_well_ = true;
  Background background_;  // last: its jobs use what stands above
};

}  // namespace mock_engine

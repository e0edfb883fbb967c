#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvrail/event_queue.h"
#include "kvrail/kv_messenger.h"
#include "support/background.h"
#include "support/events.h"
#include "support/kv_cache.h"
#include "support/page_pool.h"
#include "support/trace.h"

namespace mock_engine {

struct DecodeEngineOptions {
  std::uint32_t pool_pages = 0;
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
  DecodeEngine(kvrail::KvMessenger& messenger, kvrail::EventQueue& queue, KvCache& cache,
               DecodeEngineOptions options, EventSink events);

  // A prefill node to send requests to; at least one before run().
  void add_peer(kvrail::PeerId id, const std::string& name) { peers_.push_back({id, name}); }

  // Serves all prompts, or sees them fail. True if all arrived whole, nothing was written elsewhere
  // and every page is free again. Each prompt must fit into the pool.
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
    PageTable pages;
    std::uint32_t cached_tokens = 0;
    kvrail::Status result;
    kvrail::ReceiveReport report;
    std::int64_t ready_ns = 0;
    std::uint64_t wrong_bytes = 0;
    std::uint64_t canary_bytes = 0;
  };
  using JobPtr = std::shared_ptr<Job>;
  struct CachedPage {
    PromptPtr prompt;
    std::uint32_t index = 0;  // of the page in the prompt
  };

  bool start_next(const std::vector<PromptPtr>& prompts);
  const Peer* choose_peer(std::uint32_t number) const;
  void ask(const JobPtr& job);
  void wait();
  void dispatch(const kvrail::Event& event);
  void handle(const kvrail::ReadyEvent& event);
  void handle(const kvrail::FailedEvent& event);
  void handle(const kvrail::QuiescentEvent& event);
  void handle(const kvrail::PeerLostEvent& event);
  PageTable publish(const Job& job);
  void check_and_release(const JobPtr& job, PageTable private_pages);
  void end(const Job& job);
  std::uint64_t check_all_pages() const;
  Event pages_event() const;

  kvrail::KvMessenger& messenger_;
  kvrail::EventQueue& queue_;
  KvCache& cache_;
  const DecodeEngineOptions options_;
  const EventSink events_;
  std::vector<Peer> peers_;
  PagePool pool_;
  std::map<kvrail::RequestId, JobPtr> jobs_;  // those that kvrail has not ended
  std::unordered_map<kvrail::PageIndex, CachedPage> cached_;
  std::uint32_t started_ = 0;
  std::uint32_t ended_ = 0;
  bool all_well_ = true;
  Background background_;  // last: its jobs use what stands above
};

}  // namespace mock_engine

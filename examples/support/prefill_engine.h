#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "kvrail/kv_messenger.h"
#include "support/events.h"
#include "support/pass_runner.h"
#include "support/prefill_job.h"

namespace mock_engine {

struct PrefillEngineOptions {
  std::uint32_t chunk_tokens = 0;  // of one step, over all its requests
  std::chrono::nanoseconds time_per_layer{0};
  std::uint32_t passes_in_flight = 2;
};

// An inference engine's prefill side in small: takes requests as kvrail's PrefillScheduler, gives
// them pages, forms steps on a scheduler thread and runs them on a PassRunner. All ranks of the
// node compute each pass together; one layer counter speaks for them.
//
// Locking: no call of the messenger is made while mutex_ is held, since its callbacks take it.
// Lifetime: construct; start(); messenger.start(..., this, ...); at the end stop(), then destroy
// the messenger, then this.
class PrefillEngine final : public kvrail::PrefillScheduler {
 public:
  PrefillEngine(kvrail::KvMessenger& messenger, const kvrail::KvLayout& layout, Ranks& ranks,
                PrefillEngineOptions options, EventSink events);
  ~PrefillEngine() override;

  // Begins to schedule; the messenger has been started.
  void start();
  // Ends the threads, after the passes that were begun.
  void stop();

  // The router gave the prompt to this node first: it is computed before its decode node asks.
  void expect(PromptPtr prompt);

  void on_prefill_request(const kvrail::PrefillRequest& request) override;
  void on_cancelled(kvrail::RequestId request, const kvrail::Status& reason) override;
  void on_pages_released(kvrail::RequestId request, const kvrail::Status& result,
                         const kvrail::SendReport& report) override;
  void on_peer_attached(kvrail::PeerId peer, const std::string& peer_name) override;
  void on_peer_lost(kvrail::PeerId peer, const std::string& peer_name,
                    const kvrail::Status& reason) override;

  struct Progress {
    std::uint32_t requests_ended = 0;
    std::uint32_t requests_open = 0;
    std::uint32_t peers = 0;
    std::uint32_t pages_free = 0;
    std::uint32_t page_count = 0;
    bool all_free = false;  // pages and context slots
  };
  Progress progress() const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void add(kvrail::RequestId id, std::string peer_name, PromptPtr prompt);
  void schedule();
  bool admit_next(Lock& lock);
  bool begin_next_step(Lock& lock);
  void pass_done(const Pass& pass, const PassTimes& times);
  void finish(PrefillJob& job);
  bool fits(const Prompt& prompt) const {
    return too_small_pool(layout_.groups, prompt) == nullptr;
  }

  kvrail::KvMessenger& messenger_;
  const kvrail::KvLayout& layout_;
  Ranks& ranks_;
  const PrefillEngineOptions options_;
  const EventSink events_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  RequestPools pools_;
  std::map<kvrail::RequestId, PrefillJob> jobs_;  // in the order of their arrival
  std::deque<kvrail::RequestId> waiting_;         // for pages, first come, first served
  std::map<kvrail::StepId, PassTimes> times_;
  std::uint32_t passes_in_flight_ = 0;
  std::uint32_t ended_ = 0;
  std::uint32_t peers_ = 0;
  bool failed_ = false;  // a rank is lost
  bool stopping_ = false;

  std::shared_ptr<kvrail::LayerCounter> counter_;
  std::unique_ptr<PassRunner> runner_;
  std::thread scheduler_;
};

}  // namespace mock_engine

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvrail/kv_messenger.h"
#include "perf/outcome.h"
#include "perf/pattern_memory.h"
#include "perf/results.h"

namespace kvrail::perf {

// A prefill and a decode node of this process, and small requests between them whose prompt is in
// the prefill node's cache: each is bound and sent as it comes. The decode node keeps so many in
// flight, and asks for the next when one is ready.
//
// Threads: one, beside the nodes' own.
class RequestPair : private PrefillScheduler, private DecodeScheduler {
 public:
  // `slots`: requests that may be in flight at once, each with pages of its own. Throws Error.
  RequestPair(const std::string& provider, std::uint32_t slots);

  // The KV of one request.
  static std::uint64_t request_bytes();

  // Latencies are those from request_prefill to on_ready. The target's memory is cleared before and
  // compared afterwards, neither of which is timed. Throws Error.
  Round round(std::uint32_t requests, std::uint32_t in_flight);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Side { kSource, kTarget };
  struct Asked {
    std::uint32_t slot = 0;
    Clock::time_point at;
  };
  // What is over when both nodes have let go of all requests.
  struct Run {
    Run(std::uint32_t count, std::uint32_t most_open);

    const std::uint32_t requests;
    const std::uint32_t in_flight;
    std::uint32_t asked = 0;
    std::uint32_t released = 0;
    std::deque<std::uint32_t> free_slots;
    std::unordered_map<RequestId, Asked> open;
    std::vector<double> latencies_us;
    std::uint64_t writes = 0;
    Clock::time_point last_ready;
    Outcome outcome;
  };

  void on_prefill_request(const PrefillRequest& request) override;
  void on_cancelled(RequestId request, const Status& reason) override;
  void on_pages_released(RequestId request, const Status& result,
                         const kvrail::SendReport& report) override;
  void on_ready(RequestId request, const ReceiveReport& report) override;
  void on_failed(RequestId request, const Status& reason, bool quiescent,
                 const std::vector<MissingPages>& missing) override;
  void on_quiescent(RequestId, Quiescence) override {}
  void on_peer_attached(PeerId, const std::string&) override {}
  void on_peer_lost(PeerId peer, const std::string& name, const Status& reason) override;

  KvLayout open(KvMessenger& messenger, const PatternMemory& memory) const;
  RequestPages pages_of(std::uint32_t slot, Side side) const;
  // Under the lock, as the next: asks for one more request; false if none is left for now.
  bool ask_next();
  void end_if_done();
  void fail(const Status& reason);
  // What is wrong with the pages of the slots that were used.
  std::string check_pages(std::uint32_t used_slots) const;

  const std::uint32_t slots_;
  KvLayout layout_;  // of both, but for the regions
  std::unique_ptr<PatternMemory> source_memory_;
  std::unique_ptr<PatternMemory> target_memory_;

  std::mutex mutex_;
  std::unique_ptr<Run> run_;  // guarded by mutex_; null between rounds
  std::uint64_t names_ = 0;   // guarded by mutex_

  // The last, so that nothing that they still tell finds the rest gone.
  std::unique_ptr<KvMessenger> prefill_;
  std::unique_ptr<KvMessenger> decode_;
  PeerId peer_;  // the prefill node, as the decode node knows it
};

}  // namespace kvrail::perf

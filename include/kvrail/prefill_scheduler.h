#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "kvrail/step.h"

namespace kvrail {

// A request as it reaches the prefill engine.
struct PrefillRequest {
  RequestId id;
  std::string external_id;
  PeerId peer;
  std::string peer_name;
  // Tokens of the prompt; the decode engine computes the last one itself.
  std::uint32_t prompt_tokens = 0;
  // The tokens whose KV the decode node wants: what it has cached is left out at the front.
  TokenRange sent;
  // Whether the decode node wants a context slot filled after the last layer.
  bool wants_context = false;
  // Opaque: token ids, adapter, cache salt, sampling.
  std::vector<std::byte> payload;
};

// When one layer of one chunk crossed. Times are CLOCK_MONOTONIC nanoseconds; 0 means never.
struct LayerTiming {
  StepId step;  // 0: sent when the request was bound (prefix cache)
  LayerIndex layer;
  std::int64_t seen_ns = 0;  // the watcher saw the signal
  std::int64_t first_post_ns = 0;
  std::int64_t last_completion_ns = 0;
};

// What a request cost to send.
struct SendReport {
  std::uint64_t bytes = 0;
  std::uint64_t units = 0;
  std::uint64_t writes = 0;  // after merging
  std::vector<LayerTiming> layers;
};

// What the prefill engine implements. Calls come on the messenger's thread, one at a time, never
// inside a call of the engine, and may call back into the messenger (all but its constructor,
// start(), connect() and destructor).
//
// Every request announced by on_prefill_request or made by expect_request ends in exactly one
// on_pages_released, besides those that preempt() leads to. Calls should not throw; what they throw
// is logged and dropped.
class PrefillScheduler {
 public:
  virtual ~PrefillScheduler() = default;

  // A decode node asks for a prefill. The engine queues it and answers with bind_pages or reject,
  // then or later. Not called for a request that expect_request made. One with nothing to send
  // (`sent` empty, no context) ends at once, by on_pages_released, without an answer.
  virtual void on_prefill_request(const PrefillRequest& request) = 0;

  // The request is given up (its decode node cancelled it or was lost, a step of it failed):
  // computing it further is of no use. The pages stay in use until on_pages_released.
  virtual void on_cancelled(RequestId request, const Status& reason) = 0;

  // Nothing reads the request's source pages any more. `result` is ok when everything was sent
  // (and, where other rails could take over, received). Unless it is kPreempted, which asks for a
  // later bind_pages, the id is dead.
  virtual void on_pages_released(RequestId request, const Status& result,
                                 const SendReport& report) = 0;

  virtual void on_peer_attached(PeerId peer, const std::string& peer_name) = 0;
  // After it no request of that peer is announced; those that are open end as above.
  virtual void on_peer_lost(PeerId peer, const std::string& peer_name, const Status& reason) = 0;
};

}  // namespace kvrail

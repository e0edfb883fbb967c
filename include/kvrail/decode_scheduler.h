#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "kvrail/transfer_plan.h"

namespace kvrail {

// What a decode engine asks for.
struct DecodeRequest {
  std::string external_id;          // names the request on both nodes; unique among open requests
  std::uint32_t prompt_tokens = 0;  // at least 1; the last one is not prefilled
  std::uint32_t cached_tokens = 0;  // tokens at the front that this node has already
  RequestPages pages;               // target pages of the whole prompt, cached ones included
  std::optional<ContextSlot> context_slot;
  std::vector<std::byte> payload;  // opaque to kvrail; at most 4 MiB
  // Not ready by then, it is given up as if by cancel(), with kDeadline and a text that says what
  // is missing. From request_prefill on; 0: none.
  std::uint32_t deadline_ms = 0;
};

// What arrived for a request that is ready. Times are CLOCK_MONOTONIC nanoseconds; 0 means never.
struct ReceiveReport {
  std::uint64_t units = 0;
  std::uint64_t bytes = 0;
  std::int64_t requested_ns = 0;
  std::int64_t first_arrival_ns = 0;
  std::int64_t last_arrival_ns = 0;
};

// Pages of one cache group that are not known to be whole.
struct MissingPages {
  CacheGroupIndex group;
  std::vector<PageIndex> pages;
};

// How it is known that nothing can still be written for a request.
enum class Quiescence {
  kCounted,  // every unit that was posted has arrived
  kProved,   // the peer's links are closed
};

// What the decode engine implements. Calls come on the messenger's thread, one at a time, never
// inside a call of the engine, and may call back into the messenger (all but its constructor,
// start(), connect() and destructor).
//
// Every request ends in exactly one of: on_ready; on_failed with quiescent = true; on_failed with
// quiescent = false and then one on_quiescent. Only after that may its pages be reused. Calls
// should not throw; what they throw is logged and dropped.
class DecodeScheduler {
 public:
  virtual ~DecodeScheduler() = default;

  // Every unit is in its page; the pages are the engine's again and the id is dead.
  virtual void on_ready(RequestId request, const ReceiveReport& report) = 0;

  // The request will not be ready. `missing` are its pages that are not known to be whole. Unless
  // `quiescent`, writes may still land in them until on_quiescent.
  virtual void on_failed(RequestId request, const Status& reason, bool quiescent,
                         const std::vector<MissingPages>& missing) = 0;

  // No write of the failed request can land any more; the id is dead.
  virtual void on_quiescent(RequestId request, Quiescence how) = 0;

  virtual void on_peer_attached(PeerId peer, const std::string& peer_name) = 0;
  // After its requests were told: its links are closed, and the id is dead.
  virtual void on_peer_lost(PeerId peer, const std::string& peer_name, const Status& reason) = 0;
};

}  // namespace kvrail

#pragma once

#include <functional>
#include <nlohmann/json.hpp>

namespace mock_engine {

// What a node tells about its run, one JSON object per event with its kind under "event":
//
//   listening  address
//   connected  peer
//   sent       a request left this prefill node: request, peer, ok, reason, prompt_tokens,
//              cached_tokens, bytes, units, writes, and if something was sent by a pass:
//              first_pass_ns [start, end] of the first such pass, last_signal_ns, and in
//              nanoseconds since the layer's signal first_post_ns and last_byte_ns, one per layer
//   received   a request ended on this decode node: request, peer, ok, reason, prompt_tokens,
//              cached_tokens, bytes, units, requested_ns, first_arrival_ns, last_arrival_ns,
//              ready_ns, wrong_bytes, canary_bytes
//              pages (of the target, into which something was sent)
//   lost_peer  peer, reason
//   ranks      role, pids of the processes of the node's ranks
//   traffic    at the end of a prefill node: role, runs (before merging), rails (of each: provider,
//              device_group, rail, bytes), bytes_by_rank
//   pages      at the end: role, free, count, and on a decode node canary_bytes and providers
//
// Times are CLOCK_MONOTONIC.
using Event = nlohmann::json;

// Takes events; called from several threads at once.
using EventSink = std::function<void(const Event&)>;

}  // namespace mock_engine

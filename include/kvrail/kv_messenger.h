#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/decode_scheduler.h"
#include "kvrail/error.h"
#include "kvrail/fabric_options.h"
#include "kvrail/fabric_stats.h"
#include "kvrail/ids.h"
#include "kvrail/kv_layout.h"
#include "kvrail/layer_counter.h"
#include "kvrail/pre_shared_key.h"
#include "kvrail/prefill_scheduler.h"
#include "kvrail/step.h"
#include "kvrail/stranger_stats.h"

namespace kvrail {

class KvMessengerCore;

// Who looks at the layer counters while a step is pending.
enum class WatcherPlace {
  // A thread beside the workers, which naps while a pass is slow. A signal waits for the end of a
  // nap, and what it leads to for a worker to take it up: some 10 us until the first post.
  kOwnThread,
  // The worker of device group 0, in each turn of its loop; it posts in the same turn, which is a
  // few us after the signal. It spins from begin_step to the step's last signal, for which it needs
  // a core (DeviceGroupOptions::cores): a pass that is launched from the same core is slowed down.
  // It makes the lists of every request of the step, some us each, before it posts any of them:
  // with many small requests a step, the thread is the better choice. Lists for other device groups
  // go to their workers, which may sleep, as they do from the thread.
  kWorker,
};

// How a messenger is opened. Threads: plain data.
struct MessengerOptions {
  TransferEngineOptions fabric;

  // Says who we are in peers' logs. Empty: the host's name and process id.
  std::string node_name;

  // HOST:PORT (IPv6 in brackets) of the control stream; port 0 takes a free one. Empty: this node
  // only connects. A host other than loopback needs a key, or listen_beyond_loopback: without a key
  // the stream is not encrypted, and whoever reaches the port may attach.
  std::string listen;
  bool listen_beyond_loopback = false;

  // With one, control streams are authenticated and encrypted (docs/security.md): peers without it,
  // or with another one, are refused. Every node needs the same.
  std::optional<PreSharedKey> key;

  // Connections that came here and have not proved themselves yet (without a key: are not attached
  // yet), at once. When one more comes, the oldest is closed, so that silent ones do not keep
  // others out. More than half of max_connections_per_second, which may all come at once.
  std::uint32_t max_handshakes = 256;
  // How many connections are accepted per second in the long run, and half of it at once. Others
  // wait, four seconds' worth of them and at least 256, and source addresses (of IPv6: networks of
  // 64 bits) are served in turn: a flood from one delays others by one connection at a time, one
  // from n by n. Beyond that, the last one of the address with most is closed; floods from hundreds
  // of addresses still keep peers out. With the above, each has about two seconds to prove itself,
  // whoever else comes. Raise both where more than some hundreds of peers connect to one node
  // within handshake_timeout_ms.
  std::uint32_t max_connections_per_second = 100;

  std::uint32_t heartbeat_ms = 500;  // sent when nothing else was; at least 10
  // Silence after which a peer is lost, though it be merely stopped; above heartbeat_ms. Also how
  // long units that a prefill node says it posted may take to arrive.
  std::uint32_t lost_after_ms = 3000;
  std::uint32_t handshake_timeout_ms = 5000;  // for an introduction as a whole
  // A rail that failed is left out; after this it is tried again, and then twice as late each time,
  // up to 64 times this, preferably while no request is open.
  std::uint32_t rail_retry_ms = 1000;
  std::uint32_t connect_timeout_ms = 10000;  // connect() tries again until then
  std::uint32_t max_message_bytes = 16u << 20;

  WatcherPlace watcher = WatcherPlace::kOwnThread;
  // Of kOwnThread: how long the layer watcher spins without a change, while a step is pending,
  // before it naps for watcher_nap_us between looks. Raise it where a core is free for the watcher.
  std::uint32_t watcher_spin_us = 100;
  std::uint32_t watcher_nap_us = 20;
};

struct MessengerStats {
  std::uint64_t requests_open = 0;
  std::uint64_t requests_ready = 0;     // decode side
  std::uint64_t requests_failed = 0;    // decode side
  std::uint64_t requests_released = 0;  // prefill side
  // By rank; empty on a node that does not prefill.
  std::vector<std::uint64_t> bytes_sent_by_rank;
  std::uint64_t peers_attached = 0;      // now
  std::uint64_t links_replaced = 0;      // times that a peer's links were, for a rail that failed
  std::uint64_t messages_ignored = 0;    // late, duplicate or unknown
  std::uint64_t handshakes_refused = 0;  // all of them
  StrangerStats strangers;               // those of peers that had not proved themselves
  std::uint64_t stray_signals = 0;       // layer signals with no step pending
  std::uint64_t steps_failed = 0;        // by a missing or an extra signal, or by fail_step
  FabricStats fabric;
};

// Moves KV caches between this node and its peers, as prefill side, decode side, or both.
//
// Use: construct; register_memory; start with the layout whose placements name the regions; then
// connect, or be connected to. One messenger serves all ranks of a node.
//
// Threads: every call may come from any thread, and from callbacks, except where said.
// Ownership: the memory, the schedulers and the layer counters' writers stay the engine's and must
// outlive the messenger. Destroying it (not from a callback) closes every peer, ends every open
// request by its callbacks (kShutDown, quiescent) and joins its threads; afterwards nothing lands
// here.
class KvMessenger {
 public:
  // Throws Error: the fabric's, or a listen address that is malformed, in use or not allowed.
  explicit KvMessenger(MessengerOptions options);
  ~KvMessenger();
  KvMessenger(const KvMessenger&) = delete;
  KvMessenger& operator=(const KvMessenger&) = delete;

  // Registers KV memory or context slots with a device group. Before start() only. Throws Error.
  RegionId register_memory(DeviceGroupId group, std::byte* data, std::uint64_t size_bytes);

  // Once. Checks that every placement lies in its region. Either scheduler may be null: a node
  // without a PrefillScheduler refuses prefill requests. Throws Error.
  void start(KvLayout layout, PrefillScheduler* prefill, DecodeScheduler* decode);

  // HOST:PORT that peers connect to, with the real port; empty if this node does not listen.
  std::string listen_address() const;
  // What was opened and why, for people; several lines.
  std::string describe() const;

  // Connects to a peer's control stream and introduces both nodes; tries again until
  // connect_timeout_ms. Blocks; not from a callback. Throws Error: cannot connect, versions or
  // layouts that differ (the text quotes both).
  PeerId connect(const std::string& host_port);

  // --- Decode side ---

  // Asks `peer` to prefill. Throws Error (kInvalidArgument) if the request does not fit the layout.
  // A peer that is lost by now, or unknown, is reported by on_failed. A request with nothing to
  // send is ready at once, and the prefill node is told.
  RequestId request_prefill(PeerId peer, DecodeRequest request);

  // Gives a request up, at any moment: it ends by on_failed (kCancelled) and, where writes may
  // still land, on_quiescent. The prefill node stops posting and tells its engine. One that has
  // ended, or ends just now by on_ready, is left alone.
  void cancel(RequestId request, const std::string& reason);

  // --- Prefill side ---

  // The router gave the prompt to this engine first: the engine may bind pages and compute before
  // the decode node's request comes; what is computed is sent when that comes, of which
  // on_prefill_request does not tell. Throws Error (kInvalidArgument) if external_id is expected or
  // open already.
  RequestId expect_request(const std::string& external_id);

  // Also after preempt(). The request's source pages, for the whole prompt, and the tokens at their
  // front that are computed already (prefix cache): those are sent at once. Throws Error
  // (kInvalidArgument) on pages that do not fit; requests that have ended meanwhile are ignored.
  void bind_pages(RequestId request, RequestPages pages, std::uint32_t cached_tokens,
                  std::optional<ContextSlot> context_slot = std::nullopt);

  // The engine will not run it; the decode node's request fails as kRejected.
  void reject(RequestId request, const std::string& reason);

  // The engine gives the request up after having bound it.
  void fail(RequestId request, const std::string& reason);

  // The engine takes its pages back for now: once nothing reads them, on_pages_released
  // (kPreempted) says so, and the request stays open. A later bind_pages goes on: what was sent is
  // not sent again, and its tokens are computed or cached anew from the front. Steps announced
  // before say nothing any more. Ignored unless pages are bound.
  void preempt(RequestId request);

  // A counter for one stream of forward passes, watched by this messenger.
  std::shared_ptr<LayerCounter> make_layer_counter();

  // Announces a forward pass; its pass calls counter.start(step) and then signals. Steps of one
  // counter run in the order of their announcement, and at most LayerCounter::kHistory of them may
  // be announced after one that is not over. Throws Error, and then announces nothing:
  // kInvalidArgument on chunks that do not follow each other, of requests without pages, or on
  // layers that do not exist; kLimit; kNotFound for a counter of another messenger. Chunks of
  // requests that have ended are ignored.
  StepId begin_step(LayerCounter& counter, StepPlan plan);
  // The pass will not run; nothing of it was computed, nor of steps that were announced on top of
  // it, which must be discarded too. Before any later step starts.
  void discard_step(LayerCounter& counter, StepId step);
  // The pass went wrong: its requests fail. It may still signal.
  void fail_step(LayerCounter& counter, StepId step, const std::string& reason);

  // The request's context slot is filled: it is sent.
  void context_ready(RequestId request);

  MessengerStats stats() const;

 private:
  std::shared_ptr<KvMessengerCore> core_;
};

}  // namespace kvrail

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/fabric_options.h"
#include "kvrail/fabric_stats.h"
#include "kvrail/ids.h"
#include "kvrail/memory_region.h"
#include "kvrail/rail_failure.h"
#include "kvrail/write_list.h"

namespace kvrail {

class TransferEngineCore;

// What arrived on a counter. Times are CLOCK_MONOTONIC nanoseconds; 0 means never.
struct CounterReport {
  std::uint64_t units_arrived = 0;
  std::uint64_t units_expected = 0;
  std::int64_t first_arrival_ns = 0;
  std::int64_t last_arrival_ns = 0;
};

// Called once per `expect`: with success when exactly the expected units are there, with
// kUnitsExceeded when more came, with kLinkClosed when the peer's links were closed before. Runs on
// the device group's worker and must not block.
//
// Where the group's GPU does not see a NIC's writes in order, they are flushed before success is
// said: completions order them for the host alone, and a kernel that was started on the word of one
// might read what was there before. What was counted is then seen by kernels that are started
// afterwards; peek() says nothing of the kind (see show_arrivals). kFabric when the flush failed.
using CounterCallback = std::function<void(const Status& status, const CounterReport& report)>;

// Made by a worker in each turn of its loop; must not block. True: it waits for something that
// wakes nobody, and the worker goes on turning; false: the worker may sleep.
using TurnCall = std::function<bool()>;

// Called once, on a worker, when the peer's links are closed: nothing of that peer lands after it.
using ClosedCallback = std::function<void()>;

// What the owner of the control path adds to a peer.
struct PeerOptions {
  // Named in errors, logs and statistics, such as "10.0.0.7:4600".
  std::string name;
  // Rings the peer: makes it call `wake_peer` for us. Called from a worker at the first write after
  // a pause; must not block. Empty where the peer is known to poll.
  std::function<void()> ring;
  // An error that makes the peer's links useless (the text names it). Called at most once, from a
  // worker; must not block. The links stay open, so that close_peer is the only fence.
  std::function<void(const Status& status)> on_error;
  // What concerns one rail (a write or a grant that failed, a completion queue that cannot be read)
  // is told here instead of to on_error, once per rail, from a worker; must not block. The rail's
  // link posts nothing after it and stays open; the others go on. A submission whose write failed
  // completes as failed. Empty: such errors go to on_error.
  std::function<void(const RailFailure& failure)> on_rail_failed = {};
  // Rails of this node that get no link with this peer, in either direction; the others keep their
  // indices and the regions their keys. One rail of each device group must remain. With
  // connect_peer the same as with the offer that was answered.
  std::vector<RailId> left_out = {};
};

// fabric-lib: regions, peers, links, writes and counters over libfabric. It knows nothing of KV.
//
// Peers are introduced in three steps over whatever control path the caller has:
//   initiator: offer()                      -> offer bytes
//   acceptor:  accept_peer(offer)           -> its PeerId, answer bytes
//   initiator: connect_peer(answer)         -> its PeerId, confirm bytes
//   acceptor:  confirm_peer(peer, confirm)
// after which both can write. Each step opens the links (one endpoint and completion queue per peer
// and rail) and verifies what it is given (kMalformed). A rail that refuses to open a link is named
// by a RailError: the introduction may be made again without it. The same two engines may be
// introduced more than once; each introduction has links, counters and a PeerId of its own.
//
// Threads: every call may come from any thread. Calls that touch libfabric (register_memory,
// accept_peer, connect_peer, confirm_peer) run on the workers and block for milliseconds; they must
// not be made from a callback. The others never wait for a worker (but see FullQueue::kBlock).
// Ownership: destroying the engine closes every peer, completes every submission and joins the
// workers; it must not happen inside a callback.
class TransferEngine {
 public:
  // Throws Error: unknown or unusable provider, NIC, address or limit.
  explicit TransferEngine(TransferEngineOptions options);
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  // What was opened and why, for people: providers, rails, limits, several lines.
  std::string describe() const;
  // The same for one peer: which provider was chosen for it and why.
  std::string describe_peer(PeerId peer) const;

  // Memory of the host, or of the group's GPU (DeviceGroupOptions::cuda_device), which the driver
  // tells apart. `size_bytes` at least 1; overlapping and repeated registrations are fine. Throws
  // Error: kInvalidArgument for memory of another GPU, or that is not all of one; kUnsupported for
  // a GPU's memory that the provider cannot reach, or whose GPU would not see what arrives; and
  // others.
  MemoryRegion register_memory(DeviceGroupId group, std::byte* data, std::uint64_t size_bytes);

  struct Introduction {
    PeerId peer;
    std::vector<std::byte> reply;
  };
  // `left_out` as in PeerOptions, which says it again to connect_peer. Throws Error
  // (kInvalidArgument): a rail that does not exist, or a device group without a rail left.
  std::vector<std::byte> offer(std::span<const RailId> left_out = {}) const;
  Introduction accept_peer(std::span<const std::byte> offer, PeerOptions options);
  Introduction connect_peer(std::span<const std::byte> answer, PeerOptions options);
  void confirm_peer(PeerId peer, std::span<const std::byte> confirm);

  // Imports a descriptor made by the peer's MemoryRegion::descriptor(). Throws Error (kMalformed).
  RemoteRegionId import_region(PeerId peer, std::span<const std::byte> descriptor);

  // Rails of each device group, on both sides of a peer; those that its links leave out count.
  struct RailCounts {
    std::vector<std::uint16_t> local;
    std::vector<std::uint16_t> remote;
  };
  RailCounts rail_counts(PeerId peer) const;

  // The fence. Closes the peer's links on every device group, completes its submissions as
  // kLinkClosed and its expected counters likewise; afterwards nothing of that peer lands here.
  // Where the provider lets the peer read our source later (shm), submissions complete only when
  // the peer has confirmed or died (see confirm_remote_closed). Idempotent; does not wait:
  // `closed`, which may be empty, says when.
  void close_peer(PeerId peer, ClosedCallback closed = {});
  // Says that the peer has closed its own links for us, as it said itself: it reads no source of
  // ours any more.
  void confirm_remote_closed(PeerId peer);
  // A process that was stopped within a write may hold up a worker here (shm) until somebody sees
  // that it has ended, which that worker cannot. Call this every 20 to 100 ms after close_peer, as
  // long as it returns true: some peer is closing, or closed but not over. Does not wait.
  bool tend_closed_peers();

  // Submits writes to a peer. Offsets and units are checked against both regions first. On success
  // `done` is called once; on any other status it is never called.
  Status submit(PeerId peer, WriteList list, FullQueue when_full, WriteCallback done);

  // Counters of (peer, group). Taking one zeroes it; arrivals between take and expect count;
  // arrivals on a counter that is not taken are strays, dropped and counted. Ids are reused first
  // in, first out; release one only when nothing can still arrive on it.
  CounterId take_counter(PeerId peer, DeviceGroupId group);
  void expect(PeerId peer, DeviceGroupId group, CounterId counter, std::uint64_t units,
              CounterCallback reached);
  // What has arrived so far; a snapshot for messages and metrics.
  CounterReport peek(PeerId peer, DeviceGroupId group, CounterId counter) const;
  // What peek() has counted so far is seen by the group's GPU when this returns, and does not land
  // later over what is computed in its place; a counter that is reached and a peer that is closed
  // bring the same (a flush that fails on closing is logged). Nothing where no flush is needed;
  // else some us, in any thread. kFabric when the flush failed. Throws Error (kInvalidArgument) for
  // a group that does not exist.
  Status show_arrivals(DeviceGroupId group) const;
  // The callback of a pending expect is dropped; it may still be running.
  void release_counter(PeerId peer, DeviceGroupId group, CounterId counter);

  // The peer rang: its links are polled for a while even if nothing is expected from it.
  void wake_peer(PeerId peer);

  // Has a device group's worker make `call` in each turn of its loop, and post what that submits to
  // this group in the same turn: for what is looked at all the time and must be sent at once. While
  // it returns true the worker spins, and offers its core to others now and then. One per group: a
  // later one takes its place, an empty one ends it. Does not wait: the worker may make the call
  // until the engine is destroyed, and what `call` refers to must outlive that; it must have
  // stopped to use the engine itself before. Both throw Error (kInvalidArgument) for a group that
  // does not exist.
  void set_turn_call(DeviceGroupId group, TurnCall call);
  // Has a worker that sleeps make its turn call.
  void wake_worker(DeviceGroupId group);

  FabricStats stats() const;

 private:
  std::shared_ptr<TransferEngineCore> core_;
};

}  // namespace kvrail

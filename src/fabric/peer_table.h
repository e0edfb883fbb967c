#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "fabric/peer_record.h"
#include "fabric/worker.h"
#include "kvrail/transfer_engine.h"

namespace kvrail {

// The peers of an engine, from their introduction to the end of what they may still read.
//
// Life of a record: open; closing, while its device groups close their links; leaving, if the peer
// may still read our source; gone.
// Threads: any. No lock is held while a callback runs or a worker is waited for.
class PeerTable {
 public:
  using PeerPtr = std::shared_ptr<PeerRecord>;

  explicit PeerTable(const std::vector<std::unique_ptr<Worker>>& workers) : workers_(workers) {}

  void add(const PeerPtr& record);
  // Null if it does not exist or is gone; a peer that is closing is found.
  PeerPtr find(PeerId peer) const;
  std::vector<PeerPtr> all() const;
  // For statistics: a peer is either among the open ones or in the sum over the closed ones.
  struct Snapshot {
    std::vector<PeerPtr> open;
    LinkStats closed;
  };
  Snapshot snapshot() const;

  void add_region(PeerRecord& record, RemoteRegionId id, std::shared_ptr<RemoteRegion> region);
  // Null if it was not imported, or the peer is closing.
  std::shared_ptr<RemoteRegion> find_region(const PeerRecord& record, RemoteRegionId id) const;
  // Null if it was not added, or is gone with its source or its peer. One lock and one reference:
  // this is asked for each submission.
  std::shared_ptr<const Route> find_route(PeerId peer, RegionId source,
                                          RemoteRegionId target) const;
  // Not for a peer that is closing, or has kMaxRoutes.
  void add_route(PeerRecord& record, RegionId source, RemoteRegionId target,
                 std::shared_ptr<const Route> route);
  void forget_routes_from(RegionId source);
  // False if it was connected before.
  bool mark_connected(PeerRecord& record, const std::vector<Bytes>& shm_endpoints);

  void close(PeerId peer, ClosedCallback closed);
  void confirm_remote_closed(PeerId peer);
  // Frees workers that a peer holds up which is closing here and whose process has ended since.
  // False when no peer is closing or leaving.
  bool tend_closed();
  // Closes all and waits; what peers may still read is given up.
  void close_all();

 private:
  // Beyond this a peer's routes are made anew each time: a node that writes from each of hundreds
  // of regions to each of hundreds must not keep them all.
  static constexpr std::size_t kMaxRoutes = 4096;

  void close_groups(const PeerPtr& record, bool remote_closed);
  void on_closed(const PeerPtr& record);
  void forget(const PeerPtr& record);
  void release_left_locks(const PeerRecord& record, int timeout_ms) const;

  const std::vector<std::unique_ptr<Worker>>& workers_;

  mutable std::shared_mutex mutex_;
  std::condition_variable_any peer_left_;
  std::unordered_map<PeerId, PeerPtr> peers_;    // open and closing; guarded by mutex_
  std::unordered_map<PeerId, PeerPtr> leaving_;  // guarded by mutex_
  LinkStats closed_peers_;                       // guarded by mutex_
};

}  // namespace kvrail

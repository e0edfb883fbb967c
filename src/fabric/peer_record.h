#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "fabric/introduction.h"
#include "fabric/peer_group.h"
#include "fabric/peer_life.h"
#include "fabric/route.h"

namespace kvrail {

// A peer as the engine knows it: one PeerGroup per device group.
//
// Threads: `life`, `provider`, `groups`, `rails` and `remote_rails` are constant once the record is
// in the engine's table; the rest is guarded by the engine's mutex.
struct PeerRecord {
  std::shared_ptr<PeerLife> life;
  std::size_t provider = 0;
  std::string reason;  // why that provider
  NodeRails rails;
  NodeRails remote_rails;
  std::vector<std::shared_ptr<PeerGroup>> groups;

  std::atomic<std::size_t> groups_open{0};    // while closing
  std::atomic<std::size_t> groups_parked{0};  // closed, with writes that the peer may still read

  UniqueFd process;  // of a peer on this host: readable when it has ended
  // Of shm: the addresses of both sides' links, whose locks a peer that dies may leave behind.
  std::vector<Bytes> shm_endpoints;
  bool connected = false;  // its addresses are known
  bool closing = false;
  bool counted = false;  // among the closed peers of the statistics
  bool remote_closed = false;
  std::vector<ClosedCallback> when_closed;
  std::unordered_map<RemoteRegionId, std::shared_ptr<RemoteRegion>> regions;
  // By source and target; empty as soon as the peer is closing.
  std::unordered_map<std::uint64_t, std::shared_ptr<const Route>> routes;
};

}  // namespace kvrail

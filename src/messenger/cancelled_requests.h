#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "kvrail/ids.h"

namespace kvrail {

// Requests that a decode node cancelled before this node knew them: they are refused when they
// come. So is one whose Cancel crossed its PrefillReject, and which never comes again: the last
// kMaxPerPeer are kept.
//
// Threads: one at a time.
class CancelledRequests {
 public:
  static constexpr std::size_t kMaxPerPeer = 1024;

  void add(PeerId peer, std::uint64_t wire_id) {
    auto& ids = by_peer_[peer];
    ids.push_back(wire_id);
    if (ids.size() > kMaxPerPeer) ids.pop_front();
  }

  // Whether it was cancelled, and forgets it.
  bool take(PeerId peer, std::uint64_t wire_id) {
    const auto ids = by_peer_.find(peer);
    return ids != by_peer_.end() && std::erase(ids->second, wire_id) > 0;
  }

  void forget(PeerId peer) { by_peer_.erase(peer); }

 private:
  std::unordered_map<PeerId, std::deque<std::uint64_t>> by_peer_;
};

}  // namespace kvrail

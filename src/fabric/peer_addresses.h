#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/introduction.h"
#include "fabric/link.h"
#include "kvrail/ids.h"

namespace kvrail {

// The links of a peer, as the address vectors of one device group's rails know them: every rail may
// be told to write to, or to grant to, every link of the peer.
//
// Threads: the device group's worker only.
class PeerAddresses {
 public:
  // Throws RailError, or Error: kMalformed for an address that is none of the provider,
  // kPeerLost when the peer has closed its links already (seen over shm only), kLimit.
  // What was inserted before goes with remove().
  void insert(const std::vector<std::unique_ptr<Link>>& links, const NodeLinks& peer,
              const std::string& peer_name);

  fi_addr_t get(RailIndex rail, DeviceGroupId peer_group, RailIndex peer_rail) const {
    return addresses_.at(rail)[peer_group.value()][peer_rail.value()];
  }

  // After the links are closed.
  void remove(const std::vector<std::unique_ptr<Link>>& links);

 private:
  // [rail][device group of the peer][rail of the peer]; unspecified for a rail without a link.
  std::map<RailIndex, std::vector<std::vector<fi_addr_t>>> addresses_;
};

}  // namespace kvrail

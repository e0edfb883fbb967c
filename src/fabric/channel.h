#pragma once

#include <cstdint>

#include "fabric/link.h"
#include "kvrail/ids.h"

namespace kvrail {

// One way out: from a link of ours to a link of the peer, with the credit that the peer has granted
// to it. Invariant: posted <= granted, so that the peer's completion queue cannot overrun.
struct Channel {
  Link* link = nullptr;
  RailId target;
  fi_addr_t target_address = FI_ADDR_UNSPEC;
  std::uint32_t tag = 0;
  std::uint32_t grant_word = 0;
  std::uint64_t initial_grant = 0;
  std::uint64_t granted = 0;            // immediates ever allowed, as read last
  std::uint64_t posted = 0;             // immediates, ever
  std::uint64_t bytes_posted = 0;       // ever
  std::uint64_t bytes_outstanding = 0;  // the least loaded channel is the next to post

  void read_grant() { granted = link->granted(grant_word); }
  // Reads the grant only where the last one is used up: its immediate may come later than it does.
  std::uint64_t credit() {
    if (granted == posted) read_grant();
    return granted - posted;
  }
};

// One way in: a link of the peer that writes to one of ours.
//
// At most `share` immediates are outstanding; a grant is due when half of them have been read.
struct InboundChannel {
  RailId source;
  fi_addr_t source_address = FI_ADDR_UNSPEC;  // unspecified until the peer has confirmed
  std::uint64_t grant_address = 0;
  std::uint64_t grant_key = 0;
  std::uint64_t share = 0;
  std::uint64_t consumed = 0;  // immediates read, ever
  std::uint64_t granted = 0;   // immediates allowed, ever
  std::uint64_t consumed_at_ring = 0;
  std::uint32_t repeats = 0;  // of the last grant, since something was read
  std::uint32_t turn = 0;
  bool due = false;  // queued for a grant

  bool wants_grant() const { return consumed + share - granted >= (share + 1) / 2; }
};

}  // namespace kvrail

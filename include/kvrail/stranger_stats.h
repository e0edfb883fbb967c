#pragma once

#include <cstdint>

namespace kvrail {

// Connections to a node's port that ended before the other side had proved itself (without a key:
// before it was attached), by why. The first of each kind is logged, the others are only
// counted. Threads: plain data.
struct StrangerStats {
  std::uint64_t http = 0;
  std::uint64_t tls = 0;
  std::uint64_t ssh = 0;
  std::uint64_t zero_length = 0;
  std::uint64_t huge_length = 0;    // a frame longer than any hello
  std::uint64_t garbage = 0;        // any other bytes
  std::uint64_t too_slow = 0;       // not done within handshake_timeout_ms
  std::uint64_t hung_up = 0;        // left, in whatever words; maybe while it waited for its turn
  std::uint64_t wrong_key = 0;      // has another pre-shared key, or has seen one used
  std::uint64_t other_scheme = 0;   // has no pre-shared key where this node has one, or the reverse
  std::uint64_t other_version = 0;  // speaks another version of the protocol
  std::uint64_t made_room = 0;      // was the oldest of max_handshakes when another one came
  std::uint64_t too_many = 0;       // closed while it waited, of the address with most that did
  std::uint64_t other = 0;
};

}  // namespace kvrail

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/byte_codec.h"

namespace kvrail {

// Shuts down, in both directions, this process's TCP connections between one endpoint of ours and
// the endpoints of a peer: those that were accepted at our endpoint's port, and those that were
// made to one of the peer's. The addresses are sockaddr, as fi_getname gives them; others are
// ignored.
//
// The provider keeps its descriptors: they are only cut, never closed.
void cut_sockets(std::span<const std::byte> endpoint, std::span<const Bytes> peer_endpoints);

// Ends what comes to one endpoint of ours: shuts down its listening socket and every connection
// that was accepted at its port, and knows whether the provider has closed those since. Threads:
// one.
class SocketCut {
 public:
  explicit SocketCut(std::span<const std::byte> endpoint);

  // Whether one of the accepted connections is still open. Its descriptor may have another number's
  // file behind it by now, which is told by the inode.
  bool any_open() const;

 private:
  struct Accepted {
    int descriptor;
    ino_t inode;
  };
  std::vector<Accepted> accepted_;
};

}  // namespace kvrail

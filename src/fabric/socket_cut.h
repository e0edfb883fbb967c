#pragma once

#include <cstddef>
#include <span>

#include "base/byte_codec.h"

namespace kvrail {

// Shuts down, in both directions, this process's TCP connections between one endpoint of ours and
// the endpoints of a peer: those that were accepted at our endpoint's port, and those that were
// made to one of the peer's. The addresses are sockaddr, as fi_getname gives them; others are
// ignored.
//
// The provider keeps its descriptors: they are only cut, never closed.
void cut_sockets(std::span<const std::byte> endpoint, std::span<const Bytes> peer_endpoints);

}  // namespace kvrail

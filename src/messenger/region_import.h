#pragma once

#include "kvrail/transfer_engine.h"
#include "messenger/attached_peer.h"

namespace kvrail {

// Makes the peer's regions known to its links, from its descriptors. Throws Error (kMalformed): one
// that its layout names was not told, or does not verify.
void import_regions(TransferEngine& engine, AttachedPeer& peer);

}  // namespace kvrail

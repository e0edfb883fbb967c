#pragma once

#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "wire/message.h"

namespace kvrail {

// What the request side of the messenger asks of its peers. Threads: the messenger's.
class PeerMessages {
 public:
  virtual ~PeerMessages() = default;

  // Dropped if the peer is lost.
  virtual void send(PeerId peer, const Message& message) = 0;

  // The peer cannot be trusted any more: its links are closed, which is the fence.
  virtual void give_up(PeerId peer, const Status& reason) = 0;
};

}  // namespace kvrail

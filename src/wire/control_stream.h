#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kvrail/error.h"
#include "wire/message.h"

namespace kvrail {

class ControlLoop;

// One TCP connection that carries Messages, each preceded by its length (32 bits, little endian).
//
// Threads: all calls and all handlers on the ControlLoop's thread, except send_wake(), which any
// thread may call and which allocates nothing that waits.
// Ownership: shared; an open stream keeps itself alive until it is closed or lost.
class ControlStream : public std::enable_shared_from_this<ControlStream> {
 public:
  struct Handlers {
    std::function<void(Message message)> on_message;
    // Once: end of stream, an error, a frame longer than allowed, or a message that does not decode
    // (the reason says which). Never after close().
    std::function<void(const Status& reason)> on_lost;
  };

  virtual ~ControlStream() = default;

  // Begins reading. Before it, messages wait in the socket.
  virtual void start(Handlers handlers) = 0;

  // Queues a message. Never blocks; a peer that takes nothing while more than the limit of bytes is
  // queued is lost (kPeerLost).
  virtual void send(const Message& message) = 0;

  // A Wake, from any thread; several that have not left yet are one.
  virtual void send_wake() = 0;

  // Sends what is queued (for at most linger_ms), then closes. No handler is called after it.
  virtual void close(std::uint32_t linger_ms = 0) = 0;

  // "127.0.0.1:4600", as connected.
  virtual const std::string& remote_address() const = 0;

  // CLOCK_MONOTONIC nanoseconds of the last byte received and of the last message queued.
  virtual std::int64_t last_received_ns() const = 0;
  virtual std::int64_t last_sent_ns() const = 0;
};

}  // namespace kvrail

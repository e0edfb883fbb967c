#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kvrail/error.h"
#include "wire/frame_fault.h"
#include "wire/message.h"
#include "wire/secret.h"

namespace kvrail {

class ControlLoop;

// One TCP connection that carries Messages, each preceded by its length (32 bits, little endian),
// and encrypted from encrypt() on.
//
// Threads: all calls and all handlers on the ControlLoop's thread, except send_wake(), which any
// thread may call and which does not wait.
// Ownership: shared; from the first start() or send() on, an open stream keeps itself alive until
// it is closed or lost. One that nobody holds before is closed.
class ControlStream : public std::enable_shared_from_this<ControlStream> {
 public:
  struct Handlers {
    std::function<void(Message message)> on_message;
    // Once: end of stream, an error, or a Goodbye in clear as the first of the sealed frames
    // (kPeerLost), a peer that takes nothing (kQueueFull), a frame longer than allowed or a message
    // that does not decode (kMalformed), one that does not open (kUnauthenticated), or an
    // on_message that threw (its code); the text says which.
    // The stream is closed by then. Never after close(), never inside a call.
    std::function<void(const Status& reason)> on_lost;
  };

  virtual ~ControlStream() = default;

  // Begins reading; once. Before it, messages wait in the socket. Handlers may do anything with the
  // stream; they are destroyed, on the loop's thread, when the stream is closed or lost.
  virtual void start(Handlers handlers) = 0;

  // Queues a message; what one handler queues leaves together. Never blocks. A peer that takes
  // nothing while more than the limit of bytes is queued is lost (kQueueFull). So is the stream for
  // a message that the wire does not carry: kInvalidArgument for values outside message_limits.h,
  // kLimit above max_message_bytes. Callers that take values from outside try encode() first.
  virtual void send(const Message& message) = 0;

  // From now on, both ways: what is queued by later calls is sealed, and what was queued before is
  // not; the frame whose on_message runs was the last to arrive in clear. Once.
  virtual void encrypt(const StreamKeys& keys) = 0;
  // Longer messages end the stream, from the next one on. At first the limit of the loop.
  virtual void set_max_message_bytes(std::uint32_t max_message_bytes) = 0;

  // A Wake, from any thread; several that have not left yet are one.
  virtual void send_wake() = 0;

  // Sends what is queued and waits for the peer's end of stream, for at most linger_ms, then
  // closes. No handler is called after it.
  virtual void close(std::uint32_t linger_ms = 0) = 0;

  // "127.0.0.1:4600", as connected.
  virtual const std::string& remote_address() const = 0;

  // Of a stream that was lost for what arrived on it; else kNone.
  virtual FrameFault frame_fault() const = 0;

  // CLOCK_MONOTONIC nanoseconds of the last byte received and of the last message queued.
  virtual std::int64_t last_received_ns() const = 0;
  virtual std::int64_t last_sent_ns() const = 0;
};

}  // namespace kvrail

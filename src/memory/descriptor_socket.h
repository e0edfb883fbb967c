#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "base/unique_fd.h"

namespace kvrail {

// A connected Unix socket (SOCK_STREAM or SOCK_SEQPACKET) of the caller's, over which messages of a
// known size go, each with a file descriptor. Never waits beyond the deadline, whether or not the
// socket blocks, and never raises SIGPIPE.
//
// Threads: one at a time.
class DescriptorSocket {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Throws Error (kInvalidArgument) if it is no such socket.
  explicit DescriptorSocket(int socket);

  // Throws Error: kPeerLost, kDeadline, kLimit.
  void send(std::span<const std::byte> bytes, int descriptor, Deadline deadline) const;

  // The descriptors that came with a message, close-on-exec.
  struct Descriptors {
    std::size_t count = 0;
    UniqueFd first;  // the others are closed already
  };

  // Fills `bytes` and reads nothing beyond. Throws Error: kPeerLost, kDeadline, kLimit, and
  // kMalformed for a message of another size; all descriptors that came are closed then.
  Descriptors receive(std::span<std::byte> bytes, Deadline deadline) const;

 private:
  void wait(short events, Deadline deadline) const;

  int socket_;
  bool stream_ = false;
};

}  // namespace kvrail

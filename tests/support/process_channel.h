#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/byte_codec.h"
#include "base/unique_fd.h"

namespace kvrail {

// One end of a stream socket between a test and a process that it started: whole messages, each
// with at most one file descriptor.
//
// Threads: send() any; receive() one at a time.
class ProcessChannel {
 public:
  explicit ProcessChannel(UniqueFd socket) : socket_(std::move(socket)) {}

  struct Message {
    Bytes bytes;
    UniqueFd fd;
  };

  // False when the other end is gone.
  bool send(std::span<const std::byte> bytes, int fd = -1);
  // Waits for a message; none when the other end is gone or shut_down() was called.
  std::optional<Message> receive();
  // Ends receive() of both sides.
  void shut_down();

 private:
  UniqueFd socket_;
  std::mutex send_mutex_;
};

// The same with text; "" when the other end is gone.
void say(ProcessChannel& channel, const std::string& text, int fd = -1);
std::string hear(ProcessChannel& channel);

}  // namespace kvrail

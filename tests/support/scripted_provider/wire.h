#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "support/scripted_provider/landing.h"
#include "support/scripted_provider/socket_buffer.h"
#include "support/scripted_provider/write.h"

namespace kvrail::scripted {

// The way to other processes of the host: a Unix stream per pair and direction, over which writes
// go in pieces and answers come back. Sources are read piece by piece, as the stream takes them.
//
// Threads: the hub's, except process().
class Wire {
 public:
  // Throws std::system_error.
  Wire(Landing& landing, Control& control);

  // The random number under which other processes find this one.
  std::uint64_t process() const { return process_; }

  void send(std::unique_ptr<Write> write);
  // Moves what can be moved, after waiting for it up to `timeout_ns` (-1: for ever). True if
  // `wake_fd` is readable.
  bool poll(int wake_fd, std::int64_t timeout_ns);
  void fail_writes_of_nics_that_are_down();

 private:
  struct Frame {
    std::uint64_t number = 0;  // of the write, at its sender
    std::uint64_t endpoint = 0;
    Piece piece;
    std::uint32_t immediate = 0;
    std::uint32_t immediates = 0;
    bool is_last = false;
    bool has_payload = false;
  };
  struct Answer {
    std::uint64_t number = 0;
    std::int32_t error = 0;
  };
  struct Outgoing {
    std::uint64_t process = 0;
    UniqueFd fd;  // none while the other side's backlog is full
    std::deque<std::unique_ptr<Write>> queue;
    std::uint64_t front_offset = 0;  // of the queue's first: sent so far
    SocketBuffer out;
    SocketBuffer in;
    std::unordered_map<std::uint64_t, std::unique_ptr<Write>> awaiting;  // an answer
  };
  struct Incoming {
    UniqueFd fd;
    SocketBuffer in;
    SocketBuffer out;
    int error = 0;  // of the write that is arriving
  };

  Outgoing& find_outgoing(std::uint64_t process);
  bool connect(Outgoing& to);
  bool serve(Outgoing& to, short events);
  bool serve(Incoming& from, short events);
  void fill(Outgoing& to);
  void add_piece(Outgoing& to);
  void land(Incoming& from, const Frame& frame, const std::byte* payload);
  void fail_all(Outgoing& to, int error);
  void accept();

  Landing& landing_;
  Control& control_;
  std::uint64_t process_ = 0;
  UniqueFd listener_;
  std::list<Outgoing> outgoing_;
  std::list<Incoming> incoming_;
  std::vector<pollfd> polled_;
};

}  // namespace kvrail::scripted

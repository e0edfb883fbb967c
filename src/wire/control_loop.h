#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "kvrail/error.h"
#include "wire/control_stream.h"

namespace kvrail {

// Limits of every stream of a loop.
struct ControlLimits {
  std::uint32_t max_message_bytes = 16u << 20;
  std::uint64_t max_queued_bytes = 256u << 20;  // unsent, per stream
};

// A HOST:PORT split and checked: a name, an IPv4 literal, or an IPv6 literal in brackets; port 0 to
// 65,535. Throws Error (kInvalidArgument) that quotes the text and shows the form.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
HostPort parse_host_port(const std::string& text);

// The messenger's thread: an event loop that owns the control streams, listeners and timers.
//
// Threads: post() and the destructor from any thread (the destructor not from the loop's own);
// everything else on the loop's thread, except listen(), which may be called before anything else
// is running. Handlers run on the loop's thread.
class ControlLoop {
 public:
  explicit ControlLoop(ControlLimits limits);
  // Runs no more handlers, closes everything, joins the thread.
  ~ControlLoop();
  ControlLoop(const ControlLoop&) = delete;
  ControlLoop& operator=(const ControlLoop&) = delete;

  // Runs `work` on the loop's thread, in order of the calls.
  void post(std::function<void()> work);
  bool on_loop_thread() const;

  using AcceptHandler = std::function<void(std::shared_ptr<ControlStream> stream)>;
  // Listens, resolves port 0, and returns HOST:PORT as bound. Blocks shortly. Throws Error:
  // kAddressInUse, kInvalidArgument, kLimit.
  std::string listen(const std::string& host_port, AcceptHandler on_accept);
  void stop_listening();
  // Whether a host names only loopback addresses (127/8, ::1).
  static bool is_loopback(const std::string& host);

  using ConnectHandler = std::function<void(const Status& status, std::shared_ptr<ControlStream>)>;
  // One attempt; exactly one call of `done`.
  void connect(const std::string& host_port, std::uint32_t timeout_ms, ConnectHandler done);

  // Calls `work` once after `delay_ms`, unless cancelled by destroying the timer. Timers must be
  // destroyed on the loop's thread or after the loop.
  class Timer {
   public:
    virtual ~Timer() = default;
  };
  std::unique_ptr<Timer> after(std::uint32_t delay_ms, std::function<void()> work);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace kvrail

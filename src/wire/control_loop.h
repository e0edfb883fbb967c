#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kvrail/error.h"
#include "wire/control_stream.h"
#include "wire/host_port.h"

namespace kvrail {

class LoopCore;

// Limits of every stream of a loop.
struct ControlLimits {
  std::uint32_t max_message_bytes = 16u << 20;  // both ways; at least kMinMessageBytes
  std::uint64_t max_queued_bytes = 256u << 20;  // unsent, per stream; at least one message
  // By each listener, in the long run, and half of it at once. Those that come beyond that wait,
  // four seconds' worth of them and at least 256; source addresses (of IPv6: the first 64 bits) are
  // served in turn. 0: any number.
  std::uint32_t max_accepts_per_second = 0;
};

// The messenger's thread: an event loop that owns the control streams, listeners and timers.
//
// Threads: post() and the destructor from any thread (the destructor not from the loop's own);
// everything else on the loop's thread, except listen(), which may be called from any. Handlers run
// on the loop's thread, one at a time, never inside a call of this class or of ControlStream.
//
// Exceptions: a handler should not throw. If one does, the loop goes on and reports it; a stream
// whose on_message threw is lost with the exception's text.
class ControlLoop {
 public:
  // What went wrong outside of any call and of any stream: handlers that threw, and connections
  // that cannot be accepted for want of a resource (once each time it begins; it is tried again).
  using ReportHandler = std::function<void(const Status& status)>;

  // Throws Error: kInvalidArgument for limits out of range, kLimit when the process is out of
  // threads or descriptors.
  explicit ControlLoop(ControlLimits limits, ReportHandler on_report = {});
  // Runs no more handlers (work posted but not yet begun is dropped), closes everything, joins the
  // thread. Waits for streams that linger, and for a name look-up in flight. Streams and timers may
  // outlive it; their calls do nothing then.
  ~ControlLoop();
  ControlLoop(const ControlLoop&) = delete;
  ControlLoop& operator=(const ControlLoop&) = delete;

  // Runs `work` on the loop's thread, in order of the calls.
  void post(std::function<void()> work);
  bool on_loop_thread() const;

  using AcceptHandler = std::function<void(std::shared_ptr<ControlStream> stream)>;
  // Listens, resolves port 0, and returns HOST:PORT as bound. Blocks shortly (a host that is a name
  // is looked up, and its first address taken). A port that another process listens on is refused,
  // one in TIME_WAIT is not. Throws Error: kAddressInUse, kInvalidArgument, kLimit. A stream that
  // `on_accept` does not keep is closed.
  //
  // `on_drop` hears of connections that were closed while they waited (max_accepts_per_second).
  enum class Dropped {
    kHungUp,   // by the other side
    kTooMany,  // here: too many waited, most of them from its address
  };
  using DropHandler = std::function<void(Dropped why, const std::string& remote_address)>;
  std::string listen(const std::string& host_port, AcceptHandler on_accept,
                     DropHandler on_drop = {});
  // Ends all listening; accepted streams stay.
  void stop_listening();
  // Whether a host names only loopback addresses (127/8, ::1); a name is looked up.
  static bool is_loopback(const std::string& host);

  using ConnectHandler = std::function<void(const Status& status, std::shared_ptr<ControlStream>)>;
  // One attempt, over all addresses of the host; exactly one call of `done`, never inside this one.
  // Codes: kInvalidArgument (host_port), kNotFound (no such host, or nobody listens), kDeadline,
  // kLimit, kPeerLost (any other failure of the network).
  void connect(const std::string& host_port, std::uint32_t timeout_ms, ConnectHandler done);

  // Calls `work` once after `delay_ms`, unless cancelled by destroying the timer. Timers must be
  // destroyed on the loop's thread or after the loop.
  class Timer {
   public:
    virtual ~Timer() = default;
  };
  std::unique_ptr<Timer> after(std::uint32_t delay_ms, std::function<void()> work);

 private:
  std::shared_ptr<LoopCore> core_;
};

}  // namespace kvrail

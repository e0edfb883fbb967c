#pragma once

#include <signal.h>

#include <array>

namespace kvrail {

// Gives the process the signal handlers back that it had when this was made. Around calls of
// libfabric that install some: shm of 1.17 does when its first endpoint is opened, for the signals
// that end a process, to take the names of its memory away.
//
// Threads: the handlers are the process's; a handler that another thread installs meanwhile (well
// under a millisecond) is lost.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  static constexpr std::array<int, 8> kSignals = {SIGHUP,  SIGINT, SIGQUIT, SIGILL,
                                                  SIGABRT, SIGBUS, SIGSEGV, SIGTERM};

  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace kvrail

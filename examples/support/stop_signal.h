#pragma once

#include <csignal>
#include <ctime>

#include <chrono>

namespace mock_engine {

// Turns SIGINT and SIGTERM into something to wait for. Construct it before any thread starts.
class StopSignal {
 public:
  StopSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }

  // True once either has come.
  bool wait_for(std::chrono::milliseconds time) const {
    const timespec limit{time.count() / 1000, time.count() % 1000 * 1'000'000};
    return sigtimedwait(&signals_, nullptr, &limit) > 0;
  }

 private:
  sigset_t signals_{};
};

}  // namespace mock_engine

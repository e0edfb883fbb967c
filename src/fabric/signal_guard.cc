#include "fabric/signal_guard.h"

namespace kvrail {

SignalGuard::SignalGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
  }
}

SignalGuard::~SignalGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    ::sigaction(kSignals[i], nullptr, &now);
    // The two kinds of handler share their place.
    if (now.sa_handler != before_[i].sa_handler || now.sa_flags != before_[i].sa_flags) {
      ::sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
}

}  // namespace kvrail

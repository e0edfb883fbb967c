#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/logger.h"
#include "kvrail/decode_scheduler.h"
#include "kvrail/prefill_scheduler.h"

namespace kvrail {

// Between the messenger and the engine's schedulers: an exception of one call is logged and must
// not keep the other requests from being told.
//
// Threads: the messenger's.
class CallGuard {
 public:
  explicit CallGuard(const Logger& log) : log_(log) {}

  template <class Call>
  void operator()(std::string_view name, Call call) const {
    try {
      call();
    } catch (const std::exception& error) {
      log_.error("the engine's {} threw: {}", name, error.what());
    } catch (...) {
      log_.error("the engine's {} threw", name);
    }
  }

 private:
  const Logger& log_;
};

class GuardedPrefillScheduler final : public PrefillScheduler {
 public:
  GuardedPrefillScheduler(PrefillScheduler& engine, const Logger& log)
      : engine_(engine), guard_(log) {}

  void on_prefill_request(const PrefillRequest& request) override {
    guard_("on_prefill_request", [&] { engine_.on_prefill_request(request); });
  }
  void on_cancelled(RequestId request, const Status& reason) override {
    guard_("on_cancelled", [&] { engine_.on_cancelled(request, reason); });
  }
  void on_pages_released(RequestId request, const Status& result,
                         const SendReport& report) override {
    guard_("on_pages_released", [&] { engine_.on_pages_released(request, result, report); });
  }
  void on_peer_attached(PeerId peer, const std::string& peer_name) override {
    guard_("on_peer_attached", [&] { engine_.on_peer_attached(peer, peer_name); });
  }
  void on_peer_lost(PeerId peer, const std::string& peer_name, const Status& reason) override {
    guard_("on_peer_lost", [&] { engine_.on_peer_lost(peer, peer_name, reason); });
  }

 private:
  PrefillScheduler& engine_;
  const CallGuard guard_;
};

class GuardedDecodeScheduler final : public DecodeScheduler {
 public:
  GuardedDecodeScheduler(DecodeScheduler& engine, const Logger& log)
      : engine_(engine), guard_(log) {}

  void on_ready(RequestId request, const ReceiveReport& report) override {
    guard_("on_ready", [&] { engine_.on_ready(request, report); });
  }
  void on_failed(RequestId request, const Status& reason, bool quiescent,
                 const std::vector<MissingPages>& missing) override {
    guard_("on_failed", [&] { engine_.on_failed(request, reason, quiescent, missing); });
  }
  void on_quiescent(RequestId request, Quiescence how) override {
    guard_("on_quiescent", [&] { engine_.on_quiescent(request, how); });
  }
  void on_peer_attached(PeerId peer, const std::string& peer_name) override {
    guard_("on_peer_attached", [&] { engine_.on_peer_attached(peer, peer_name); });
  }
  void on_peer_lost(PeerId peer, const std::string& peer_name, const Status& reason) override {
    guard_("on_peer_lost", [&] { engine_.on_peer_lost(peer, peer_name, reason); });
  }

 private:
  DecodeScheduler& engine_;
  const CallGuard guard_;
};

}  // namespace kvrail

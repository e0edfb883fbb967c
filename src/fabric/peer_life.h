#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "kvrail/error.h"
#include "kvrail/transfer_engine.h"

namespace kvrail {

// What all device groups share of one peer: its name and the owner's callbacks. Threads: any; the
// callbacks are called from workers.
class PeerLife {
 public:
  PeerLife(PeerId id, PeerOptions options) : id_(id), options_(std::move(options)) {}

  PeerId id() const { return id_; }
  const std::string& name() const { return options_.name; }

  void ring() const {
    if (options_.ring) options_.ring();
  }
  bool watches_rails() const { return bool(options_.on_rail_failed); }
  // Where nobody watches rails, the failure of one is an error of the peer.
  void report_rail(const RailFailure& failure) {
    if (options_.on_rail_failed) {
      options_.on_rail_failed(failure);
    } else {
      report_error(failure.status);
    }
  }
  // The first error is told, the others are not.
  void report_error(const Status& status) {
    if (told_.exchange(true, std::memory_order_relaxed)) return;
    if (options_.on_error) options_.on_error(status);
  }

 private:
  const PeerId id_;
  const PeerOptions options_;
  std::atomic<bool> told_{false};
};

}  // namespace kvrail

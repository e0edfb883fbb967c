#pragma once

#include <cstdint>

#include "base/clock.h"

namespace kvrail {

// The time of a turn of a loop: read when somebody asks for it, and the same from then on until it
// is forgotten. A turn of a worker that waits for nothing but arrivals does not read it, which
// would be a tenth of its time.
//
// Threads: one.
class TurnClock {
 public:
  void forget() {
    ns_ = 0;
    outdated_ = false;
  }
  // Somebody's own clock may be ahead of what was read by now: who needs a later time renews it.
  void outdate() { outdated_ = true; }
  void renew() {
    if (outdated_) forget();
  }
  // As kvrail::now_ns().
  std::int64_t now_ns() {
    if (ns_ == 0) ns_ = kvrail::now_ns();
    return ns_;
  }

 private:
  std::int64_t ns_ = 0;
  bool outdated_ = false;
};

}  // namespace kvrail

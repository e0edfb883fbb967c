#pragma once

#include <atomic>
#include <cstdint>

#include "kvrail/fabric_stats.h"

namespace kvrail {

// A count with one writer and any readers.
class Tally {
 public:
  void add(std::uint64_t n) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void raise_to(std::uint64_t n) {
    if (n > value_.load(std::memory_order_relaxed)) value_.store(n, std::memory_order_relaxed);
  }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// What a peer's links on one device group have done: written by the worker, read by any thread.
struct LinkCounters {
  Tally bytes_posted;
  Tally writes_posted;
  Tally runs_posted;
  Tally units_posted;
  Tally writes_completed;
  Tally writes_failed;
  Tally eagain;
  Tally credit_waits;
  Tally immediates_received;
  Tally units_received;
  Tally stray_units;
  Tally grants_sent;
  Tally grants_received;
  Tally credit_granted;
  Tally immediates_posted;
  Tally max_immediates_outstanding;

  void add_to(LinkStats& sum) const;
};

}  // namespace kvrail

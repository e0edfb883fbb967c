#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "kvrail/ids.h"
#include "kvrail/transfer_engine.h"

namespace kvrail {

// The counters of one (peer, device group).
//
// Invariants
//  1. `arrived` of a slot changes only on the worker, and only while the slot is taken.
//  2. A slot goes from taken to free on the worker, so no arrival can be under way when its id is
//     handed out again.
//  3. Ids are handed out first in, first out, and not before kReuseDistance others are free.
//
// Threads: take() and report() by any; everything else by the worker.
class CounterTable {
 public:
  // How many ids lie between a release and the same id's next use, while there are ids enough.
  static constexpr std::size_t kReuseDistance = 256;

  enum class Arrival {
    kCounted,
    kStray,     // the counter is not taken
    kReached,   // exactly the expected units are there
    kExceeded,  // more than the expected units are there
  };

  // Ids are 1 to `max_id`.
  explicit CounterTable(std::uint32_t max_id);
  ~CounterTable();
  CounterTable(const CounterTable&) = delete;
  CounterTable& operator=(const CounterTable&) = delete;

  // A zeroed counter. Throws Error (kLimit) when all are taken.
  CounterId take();
  // What has arrived; zero for a counter that is not taken.
  CounterReport report(CounterId counter) const;

  Arrival add(CounterId counter, std::uint32_t units, std::int64_t now_ns);
  // False if the counter is not taken or expected already. `reached` is run by the caller, through
  // take_callback(), when add() or this says so.
  bool expect(CounterId counter, std::uint64_t units, CounterCallback reached, Arrival* outcome);
  // The callback of an expected counter, which is expected no more; empty if there is none.
  CounterCallback take_callback(CounterId counter);
  void release(CounterId counter);

  // Counters that are taken: while there are some, the peer's links are polled.
  std::uint32_t taken() const { return taken_.load(std::memory_order_relaxed); }
  // Counters whose expectation is pending.
  std::vector<CounterId> expected() const;

 private:
  struct Slot {
    // Set by take() (release), read by add() (acquire): the zeroes of take() are seen first.
    std::atomic<bool> taken{false};
    std::atomic<std::uint64_t> arrived{0};
    std::atomic<std::uint64_t> expected{kNotExpected};
    std::atomic<std::int64_t> first_ns{0};
    std::atomic<std::int64_t> last_ns{0};
    CounterCallback reached;
  };
  static constexpr std::uint64_t kNotExpected = ~std::uint64_t{0};
  // Chunk k holds 64 << k slots, so that a peer with few requests costs little.
  static constexpr std::uint32_t kFirstChunk = 64;
  static constexpr std::size_t kChunks = 15;

  Slot* find(CounterId counter) const;
  Slot* taken_slot(CounterId counter) const;
  Arrival compare(const Slot& slot) const;

  const std::uint32_t max_id_;
  // Stored by take() (release) and loaded by find() (acquire).
  std::array<std::atomic<Slot*>, kChunks> chunks_{};
  std::atomic<std::uint32_t> taken_{0};

  mutable std::mutex mutex_;
  std::deque<CounterId> free_;    // guarded by mutex_
  std::uint32_t next_fresh_ = 1;  // guarded by mutex_
};

}  // namespace kvrail

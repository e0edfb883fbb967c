#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "kvrail/transfer_engine.h"
#include "perf/outcome.h"
#include "perf/settings.h"

namespace kvrail::perf {

// The only one that is opened.
inline constexpr DeviceGroupId kPerfGroup{0};

// One side of a round of messages through a TransferEngine. The callbacks keep it alive; the engine
// outlives it.
//
// Threads: one, beside the engine's worker, which answers.
class KvrailEcho : public std::enable_shared_from_this<KvrailEcho> {
 public:
  // `message` is what this side writes each time, without a counter; what comes has as many units.
  KvrailEcho(TransferEngine& engine, PeerId peer, WriteList message, std::uint32_t count);

  // The side that writes first. Returns what arm_pong() of the other side takes.
  Json arm_ping();
  // The other side. Returns what ping() takes.
  Json arm_pong(const Json& armed_ping);
  // Writes the first message and waits for the last answer: the time of each in microseconds.
  std::vector<double> ping(const Json& armed_pong);
  // Waits for the last message.
  void pong();

 private:
  void write(std::uint32_t message);
  Json counter_ids() const;
  void set_remote_counters(const Json& armed);
  void wait_and_release(const char* what);

  TransferEngine& engine_;
  const PeerId peer_;
  const WriteList message_;
  std::vector<CounterId> counters_;
  std::vector<CounterId> remote_counters_;
  std::vector<double> times_us_;
  std::chrono::steady_clock::time_point sent_;
  Outcome outcome_;
};

}  // namespace kvrail::perf

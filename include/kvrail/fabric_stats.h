#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvrail/ids.h"

namespace kvrail {

// Counts since a link was opened; only ever growing, except where said.
struct LinkStats {
  std::uint64_t bytes_posted = 0;
  std::uint64_t writes_posted = 0;
  std::uint64_t runs_posted = 0;  // ranges of runs, before merging; writes_posted is after
  std::uint64_t units_posted = 0;
  std::uint64_t writes_completed = 0;
  std::uint64_t writes_failed = 0;
  std::uint64_t eagain = 0;        // posts that the provider asked to repeat
  std::uint64_t credit_waits = 0;  // times that writes waited for the target's credit
  std::uint64_t immediates_received = 0;
  std::uint64_t units_received = 0;
  std::uint64_t stray_units = 0;  // units on counters that were not taken
  std::uint64_t grants_sent = 0;
  std::uint64_t grants_received = 0;
  std::uint64_t credit_granted = 0;     // immediates that the peer's queues have ever allowed us
  std::uint64_t immediates_posted = 0;  // never more than credit_granted
  std::uint64_t max_immediates_outstanding = 0;  // posted, no new grant read; at most
};

// One peer: the sum over its links.
struct PeerStats {
  PeerId peer;
  std::string name;
  std::string provider;
  LinkStats links;
};

// One rail of one provider: the sum over all peers, also those closed since.
struct RailStats {
  std::string provider;
  DeviceGroupId device_group;
  RailIndex rail;
  std::uint64_t bytes_posted = 0;
  // Peers for which the rail failed or refused a link: once per PeerId.
  std::uint64_t failures = 0;
};

struct FabricStats {
  std::vector<PeerStats> peers;  // open ones
  LinkStats closed_peers;        // the sum over peers closed since
  std::vector<RailStats> rails;  // of every provider that was opened, used or not
  std::uint64_t worker_wakeups = 0;
  std::uint64_t submissions = 0;
};

}  // namespace kvrail

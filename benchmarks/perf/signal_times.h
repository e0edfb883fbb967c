#pragma once

#include <string>
#include <vector>

#include "perf/settings.h"
#include "perf/transport.h"

namespace kvrail::perf {

// How long after a layer's signal something happened, over many signals.
struct SignalTimes {
  std::string until;  // "seen", "first_post", "completion", "arrival"
  std::vector<double> times_us;
};

// Adds what one round measured; `all` is empty before the first. Arrivals are left out where the
// two sides' clocks are not the same. Only the last layer of a request has one.
void add_signal_times(const std::vector<LayerTimes>& layers, std::size_t layers_per_request,
                      const std::vector<std::int64_t>& last_arrival_ns, bool same_clock,
                      std::vector<SignalTimes>& all);

// For people: a row each.
std::string signal_table_text(const std::vector<SignalTimes>& all);
Json signal_json(const std::vector<SignalTimes>& all);

}  // namespace kvrail::perf

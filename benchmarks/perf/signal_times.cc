#include "perf/signal_times.h"

#include <fmt/format.h>

#include "perf/results.h"

namespace kvrail::perf {

void add_signal_times(const std::vector<LayerTimes>& layers, std::size_t layers_per_request,
                      const std::vector<std::int64_t>& last_arrival_ns, bool same_clock,
                      std::vector<SignalTimes>& all) {
  if (all.empty()) all = {{"seen", {}}, {"first_post", {}}, {"completion", {}}, {"arrival", {}}};
  const auto add = [&](std::size_t row, std::int64_t from_ns, std::int64_t to_ns) {
    all[row].times_us.push_back(static_cast<double>(to_ns - from_ns) / 1e3);
  };
  for (const LayerTimes& layer : layers) {
    add(0, layer.signal_ns, layer.seen_ns);
    add(1, layer.signal_ns, layer.first_post_ns);
    add(2, layer.signal_ns, layer.last_completion_ns);
  }
  if (!same_clock || layers.size() != layers_per_request * last_arrival_ns.size()) return;
  for (std::size_t request = 0; request < last_arrival_ns.size(); ++request) {
    const LayerTimes& last = layers[(request + 1) * layers_per_request - 1];
    add(3, last.signal_ns, last_arrival_ns[request]);
  }
}

std::string signal_table_text(const std::vector<SignalTimes>& all) {
  std::string text = fmt::format("{:<24}{:>9}{:>9}{:>9}{:>9}\n", "layer signal to, in us",
                                 "samples", "min", "p50", "p99");
  for (const SignalTimes& times : all) {
    const Spread spread = spread_of(times.times_us);
    text += fmt::format("{:<24}{:>9}{:>9.1f}{:>9.1f}{:>9.1f}\n", times.until, times.times_us.size(),
                        spread.min, spread.median, quantile(times.times_us, 0.99));
  }
  return text;
}

Json signal_json(const std::vector<SignalTimes>& all) {
  Json json = Json::object();
  for (const SignalTimes& times : all) {
    const Spread spread = spread_of(times.times_us);
    json[times.until] = {{"samples", times.times_us.size()},
                         {"min", spread.min},
                         {"p50", spread.median},
                         {"p99", quantile(times.times_us, 0.99)},
                         {"max", spread.max}};
  }
  return json;
}

}  // namespace kvrail::perf

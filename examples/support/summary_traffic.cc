// How evenly rails and source ranks were used.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/summary.h"

namespace mock_engine {
namespace {

// 0 if all are 0.
double max_over_mean(const std::vector<double>& values) {
  double sum = 0;
  double max = 0;
  for (const double value : values) {
    sum += value;
    max = std::max(max, value);
  }
  return sum > 0 ? max / (sum / static_cast<double>(values.size())) : 0;
}

}  // namespace

// Rails of a provider that was opened but not used are not counted.
void Summary::add_traffic(Event& json) const {
  std::size_t rails = 0;
  std::size_t used = 0;
  double worst_rails = 0;
  double worst_ranks = 0;
  std::uint64_t runs = 0;
  for (const Event& node : traffic_) {
    runs += node.at("runs").get<std::uint64_t>();
    std::map<std::string, std::vector<double>> by_provider;
    for (const Event& rail : node.at("rails")) {
      by_provider[rail.at("provider")].push_back(rail.at("bytes"));
    }
    for (const auto& [provider, bytes] : by_provider) {
      const double balance = max_over_mean(bytes);
      if (balance == 0) continue;
      worst_rails = std::max(worst_rails, balance);
      rails += bytes.size();
      used += bytes.size() - static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), 0.0));
    }
    worst_ranks = std::max(worst_ranks, max_over_mean(node.at("bytes_by_rank")));
  }
  json["runs"] = runs;
  json["rails"] = rails;
  json["rails_used"] = used;
  json["rail_bytes_max_over_mean"] = worst_rails;
  json["source_rank_bytes_max_over_mean"] = worst_ranks;
}

}  // namespace mock_engine

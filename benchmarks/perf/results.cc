#include "perf/results.h"

#include <algorithm>
#include <cmath>

namespace kvrail::perf {

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const double rank = std::ceil(part * static_cast<double>(values.size()));
  const std::size_t index = std::min(values.size(), static_cast<std::size_t>(std::max(rank, 1.0)));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index - 1),
                   values.end());
  return values[index - 1];
}

Summary summarize(const Case& result) {
  std::vector<double> rates;
  std::vector<double> operations;
  std::vector<double> latencies;
  Round sum;
  for (const Round& round : result.rounds) {
    rates.push_back(static_cast<double>(round.bytes) / round.seconds / 1e9);
    operations.push_back(static_cast<double>(round.operations) / round.seconds);
    latencies.insert(latencies.end(), round.latencies_us.begin(), round.latencies_us.end());
    sum.bytes += round.bytes;
    sum.operations += round.operations;
    sum.writes += round.writes;
    sum.source_cpu_s += round.source_cpu_s;
    sum.target_cpu_s += round.target_cpu_s;
  }
  Summary summary;
  if (sum.bytes == 0) return summary;
  const double gigabytes = static_cast<double>(sum.bytes) / 1e9;
  summary.gb_per_s = spread_of(std::move(rates));
  summary.operations_per_s = spread_of(std::move(operations));
  summary.writes_per_operation =
      static_cast<double>(sum.writes) / static_cast<double>(sum.operations);
  summary.source_cpu_s_per_gb = sum.source_cpu_s / gigabytes;
  summary.target_cpu_s_per_gb = sum.target_cpu_s / gigabytes;
  summary.latency_p99_us = quantile(latencies, 0.99);
  summary.latency_us = spread_of(std::move(latencies));
  return summary;
}

std::vector<Ratio> ratios_of(const Results& results) {
  std::vector<Ratio> ratios;
  const Case* one = nullptr;
  for (const Case& other : results.cases) {
    if (one == nullptr || other.test != one->test || other.page_bytes != one->page_bytes) {
      one = &other;
      continue;
    }
    std::vector<double> speeds;
    for (std::size_t i = 0; i < std::min(other.rounds.size(), one->rounds.size()); ++i) {
      // Both moved the same bytes.
      speeds.push_back(other.rounds[i].seconds / one->rounds[i].seconds);
    }
    ratios.push_back({other.test, other.page_bytes, one->contender, other.contender,
                      spread_of(std::move(speeds))});
  }
  return ratios;
}

}  // namespace kvrail::perf

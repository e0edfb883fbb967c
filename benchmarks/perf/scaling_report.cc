#include "perf/scaling_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "perf/chart.h"
#include "perf/host.h"
#include "perf/report.h"

namespace kvrail::perf {
namespace {

Case case_of(const Scaling& scaling, const Scaling::Point& point) {
  Case result;
  result.test = scaling.of;
  result.contender = fmt::format("{}", point.count);
  result.rounds = point.rounds;
  return result;
}

double rate_of(const Round& round) { return static_cast<double>(round.bytes) / round.seconds; }

Spread speed_of(const Scaling& scaling, const Scaling::Point& point) {
  const auto& first = scaling.points.front().rounds;
  std::vector<double> speeds;
  for (std::size_t i = 0; i < std::min(first.size(), point.rounds.size()); ++i) {
    speeds.push_back(rate_of(point.rounds[i]) / rate_of(first[i]));
  }
  return spread_of(std::move(speeds));
}

}  // namespace

std::string scaling_text(const Scaling& scaling) {
  std::string text;
  for (const auto& [name, value] : scaling.settings.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value.dump());
  }
  text += fmt::format("\n{:<10}{:>24}{:>12}{:>9}{:>24}", "", "GB/s", scaling.operation + "s/s",
                      "CPU s", "speed");
  if (scaling.has_latencies) text += fmt::format("{:>22}", "latency, us");
  text += fmt::format("\n{:<10}{:>8}{:>8}{:>8}{:>12}{:>9}{:>8}{:>8}{:>8}", scaling.of, "median",
                      "min", "max", "median", "per GB", "median", "min", "max");
  if (scaling.has_latencies) text += fmt::format("{:>11}{:>11}", "median", "p99");
  text += '\n';
  for (const Scaling::Point& point : scaling.points) {
    const Summary summary = summarize(case_of(scaling, point));
    const Spread speed = speed_of(scaling, point);
    fmt::format_to(std::back_inserter(text),
                   "{:<10}{:>8.3f}{:>8.3f}{:>8.3f}{:>12.0f}{:>9.3f}{:>8.3f}{:>8.3f}{:>8.3f}",
                   point.count, summary.gb_per_s.median, summary.gb_per_s.min, summary.gb_per_s.max,
                   summary.operations_per_s.median, summary.source_cpu_s_per_gb, speed.median,
                   speed.min, speed.max);
    if (scaling.has_latencies) {
      text += fmt::format("{:>11.1f}{:>11.1f}", summary.latency_us.median, summary.latency_p99_us);
    }
    text += '\n';
  }
  return text;
}

Json scaling_json(const Scaling& scaling) {
  Json points = Json::array();
  for (const Scaling::Point& point : scaling.points) {
    const Spread speed = speed_of(scaling, point);
    points.push_back({{"count", point.count},
                      {"speed", {{"min", speed.min}, {"median", speed.median}, {"max", speed.max}}},
                      {"measured", case_json(case_of(scaling, point))}});
  }
  return {{"of", scaling.of},
          {"environment", describe_host()},
          {"settings", scaling.settings},
          {"points", std::move(points)}};
}

std::string scaling_svg(const Scaling& scaling) {
  Chart chart;
  chart.title =
      fmt::format("{}, medians of {} rounds", scaling.of, scaling.points.front().rounds.size());
  chart.x_name = scaling.of + " (logarithmic)";
  chart.y_name = scaling.has_latencies ? scaling.operation + "s/s" : "GB/s";
  Chart::Curve& curve = chart.curves.emplace_back();
  for (const Scaling::Point& point : scaling.points) {
    const Summary summary = summarize(case_of(scaling, point));
    curve.points.push_back({static_cast<double>(point.count),
                            scaling.has_latencies ? summary.operations_per_s : summary.gb_per_s});
  }
  return chart_svg(chart);
}

}  // namespace kvrail::perf

#include <fmt/format.h>

#include <algorithm>

#include "perf/report.h"

namespace kvrail::perf {
namespace {

Json to_json(const Spread& spread) {
  return {{"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
}

Json to_json(const Round& round) {
  return {{"seconds", round.seconds},           {"bytes", round.bytes},
          {"operations", round.operations},     {"writes", round.writes},
          {"source_cpu_s", round.source_cpu_s}, {"target_cpu_s", round.target_cpu_s}};
}

// Device and name of its GPU, empty for the host.
std::string device_columns(const Json& host) {
  std::string gpu = host.value("gpu", "");
  std::replace(gpu.begin(), gpu.end(), ',', ' ');
  return fmt::format("{},{}", host.at("device").get<std::string>(), gpu);
}

}  // namespace

Json case_json(const Case& result) {
  const Summary summary = summarize(result);
  Json rounds = Json::array();
  for (const Round& round : result.rounds) rounds.push_back(to_json(round));
  Json json = {{"test", result.test},
               {"layout", result.layout},
               {"contender", result.contender},
               {"page_bytes", result.page_bytes},
               {"pages", result.pages},
               {"list_pages", result.list_pages},
               {"passes", result.passes},
               {"messages", result.messages},
               {"gb_per_s", to_json(summary.gb_per_s)},
               {"operations_per_s", to_json(summary.operations_per_s)},
               {"writes_per_operation", summary.writes_per_operation},
               {"source_cpu_s_per_gb", summary.source_cpu_s_per_gb},
               {"target_cpu_s_per_gb", summary.target_cpu_s_per_gb},
               {"rounds", std::move(rounds)}};
  if (summary.latency_us.max > 0) {
    json["latency_us"] = to_json(summary.latency_us);
    json["latency_us"]["p99"] = summary.latency_p99_us;
  }
  return json;
}

Json report_json(const Results& results) {
  Json cases = Json::array();
  for (const Case& result : results.cases) cases.push_back(case_json(result));
  Json ratios = Json::array();
  for (const Ratio& ratio : ratios_of(results)) {
    ratios.push_back({{"test", ratio.test},
                      {"page_bytes", ratio.page_bytes},
                      {"of", ratio.of},
                      {"to", ratio.to},
                      {"speed", to_json(ratio.speed)}});
  }
  return {{"environment", results.environment},
          {"settings", results.settings},
          {"cases", std::move(cases)},
          {"ratios", std::move(ratios)},
          {"signals_us", signal_json(results.signals)}};
}

std::string csv_text(const Results& results) {
  std::string text =
      "test,layout,contender,provider,source_device,source_gpu,target_device,target_gpu,page_bytes,"
      "pages,list_pages,rounds,gb_per_s_median,"
      "gb_per_s_min,gb_per_s_max,operations_per_s_median,writes_per_operation,latency_us_min,"
      "latency_us_median,latency_us_p99,source_cpu_s_per_gb,target_cpu_s_per_gb\n";
  const std::string place =
      fmt::format("{},{},{}", results.environment.at("provider").get<std::string>(),
                  device_columns(results.environment.at("source")),
                  device_columns(results.environment.at("target")));
  for (const Case& result : results.cases) {
    const Summary summary = summarize(result);
    text += fmt::format("{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},", result.test,
                        result.layout, result.contender, place, result.page_bytes, result.pages,
                        result.list_pages, result.rounds.size(), summary.gb_per_s.median,
                        summary.gb_per_s.min, summary.gb_per_s.max, summary.operations_per_s.median,
                        summary.writes_per_operation);
    if (summary.latency_us.max > 0) {
      text += fmt::format("{:.6g},{:.6g},{:.6g},", summary.latency_us.min,
                          summary.latency_us.median, summary.latency_p99_us);
    } else {
      text += ",,,";
    }
    text +=
        fmt::format("{:.6g},{:.6g}\n", summary.source_cpu_s_per_gb, summary.target_cpu_s_per_gb);
  }
  return text;
}

}  // namespace kvrail::perf

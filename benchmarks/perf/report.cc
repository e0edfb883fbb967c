#include "perf/report.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "kvrail/error.h"

namespace kvrail::perf {
namespace {

// "host memory", "cuda:0 (NVIDIA H200)".
std::string place_of_pages(const Json& host) {
  if (!host.contains("gpu")) return "host memory";
  return fmt::format("{} ({})", host.at("device").get<std::string>(),
                     host.at("gpu").get<std::string>());
}

void add_host(std::string& text, const char* role, const Json& host) {
  text += fmt::format("{}: {}, {}, {} cores, {}, TCP {}, libfabric {}, pages in {}\n", role,
                      host.at("host").get<std::string>(), host.at("cpu").get<std::string>(),
                      host.at("cores").get<unsigned>(), host.at("kernel").get<std::string>(),
                      host.at("congestion_control").get<std::string>(),
                      host.at("libfabric").get<std::string>(), place_of_pages(host));
}

void add_case(std::string& text, const Case& result) {
  const Summary summary = summarize(result);
  fmt::format_to(std::back_inserter(text),
                 "{:<10}{:<14}{:>6}{:>8}{:>6}  {:<10}{:>8.3f}{:>8.3f}{:>8.3f}{:>11.0f}{:>8.2f}",
                 result.test, result.layout, bytes_text(result.page_bytes), result.pages,
                 result.list_pages, result.contender, summary.gb_per_s.median, summary.gb_per_s.min,
                 summary.gb_per_s.max, summary.operations_per_s.median,
                 summary.writes_per_operation);
  if (summary.latency_us.max > 0) {
    text += fmt::format("{:>9.1f}{:>9.1f}{:>9.1f}", summary.latency_us.min,
                        summary.latency_us.median, summary.latency_p99_us);
  } else {
    text += fmt::format("{:>9}{:>9}{:>9}", "-", "-", "-");
  }
  text +=
      fmt::format("{:>9.3f}{:>9.3f}\n", summary.source_cpu_s_per_gb, summary.target_cpu_s_per_gb);
}

}  // namespace

std::string table_text(const Results& results) {
  std::string text;
  add_host(text, "source", results.environment.at("source"));
  add_host(text, "target", results.environment.at("target"));
  text += fmt::format("provider {}, {} rail(s), {} submissions outstanding, {} rounds\n\n",
                      results.environment.at("provider").get<std::string>(),
                      results.settings.at("rails").get<unsigned>(),
                      results.settings.at("depth").get<unsigned>(),
                      results.settings.at("rounds").get<unsigned>());
  text += fmt::format("{:<46}{:>24}{:>11}{:>8}{:>27}{:>18}\n", "", "GB/s", "ops/s", "writes",
                      "latency, us", "CPU s per GB");
  text += fmt::format(
      "{:<10}{:<14}{:>6}{:>8}{:>6}  {:<10}{:>6}{:>8}{:>8}{:>11}{:>8}{:>9}{:>9}{:>9}"
      "{:>9}{:>9}\n",
      "test", "layout", "page", "pages", "list", "by", "median", "min", "max", "median", "per op",
      "min", "median", "p99", "source", "target");
  for (const Case& result : results.cases) add_case(text, result);
  const auto ratios = ratios_of(results);
  if (!ratios.empty()) text += "\nspeed against each other, round by round: median (min to max)\n";
  for (const Ratio& ratio : ratios) {
    text += fmt::format("{:<10}{:>6}  {:<9} to {:<8}{:>6.2f} ({:.2f} to {:.2f})\n", ratio.test,
                        bytes_text(ratio.page_bytes), ratio.of, ratio.to, ratio.speed.median,
                        ratio.speed.min, ratio.speed.max);
  }
  if (!results.signals.empty()) text += fmt::format("\n{}", signal_table_text(results.signals));
  return text;
}

void put_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    fmt::print("{}", text);
    return;
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw Error(ErrorCode::kInvalidArgument, fmt::format("cannot write '{}'", path));
}

}  // namespace kvrail::perf

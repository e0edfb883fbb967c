// How kvrail's speed grows, or holds, with rails, peers and requests in flight: docs/benchmarks.md.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvrail/error.h"
#include "perf/engine_pair.h"
#include "perf/host.h"
#include "perf/program.h"
#include "perf/progress.h"
#include "perf/report.h"
#include "perf/request_pair.h"
#include "perf/scaling_report.h"

namespace kvrail::perf {
namespace {

// The provider has 16 NICs, of which either side takes as many.
constexpr int kMaxRails = 8;

struct Options {
  std::vector<std::uint32_t> counts;
  std::uint32_t rounds = 5;
  std::string json_path;
  std::string plot_path;
  // Of rails and peers.
  std::uint64_t nic_mbps = 0;
  std::string page_bytes = "64K";
  std::uint32_t pages = 1024;
  std::uint32_t list_pages = 4;
  std::uint32_t depth = 256;
  std::string round_bytes = "128M";
  bool null = false;
  bool per_peer = false;
  // Of requests.
  std::string provider = "tcp";
  std::uint32_t requests = 2000;
};

// The rounds of all points in turns. `round` takes the index of a point; the first of each is not
// counted.
void measure(const Options& options, Scaling& scaling,
             const std::function<Round(std::size_t)>& round) {
  Progress progress(stderr);
  progress.set_total(options.counts.size() * options.rounds);
  for (const std::uint32_t count : options.counts) {
    round(scaling.points.size());
    scaling.points.push_back({count, {}});
  }
  for (std::uint32_t i = 0; i < options.rounds; ++i) {
    for (std::size_t k = 0; k < scaling.points.size(); ++k) {
      scaling.points[k].rounds.push_back(round(k));
      progress.step(fmt::format("{} {}", scaling.points[k].count, scaling.of));
    }
  }
}

// By as many engines as there are counts, so that none has a rail or a peer that it does not use.
Scaling measure_pages(const Options& options, const std::string& of) {
  const bool are_rails = of == "rails";
  const std::uint64_t page_bytes = parse_bytes(options.page_bytes);
  if (page_bytes == 0 || page_bytes % 8 != 0) {
    throw Error(ErrorCode::kInvalidArgument, "--page-bytes must be a multiple of 8");
  }
  const PagePlan plan =
      make_page_plan(Layout::kShuffled, page_bytes, options.pages, options.list_pages);
  const std::uint64_t passes =
      std::max<std::uint64_t>(parse_bytes(options.round_bytes) / plan.bytes(), 1);
  ::setenv("KVRAIL_SCRIPTED_BANDWIDTH_MBPS", fmt::format("{}", options.nic_mbps).c_str(), 1);
  const auto most = *std::max_element(options.counts.begin(), options.counts.end());
  ::setenv("KVRAIL_SCRIPTED_NICS", fmt::format("{}", are_rails ? 2 * most : 2).c_str(), 1);
  if (options.null) ::setenv("KVRAIL_SCRIPTED_NULL", "1", 1);
  PatternMemory source(plan.memory_bytes());
  PatternMemory target(plan.memory_bytes());
  source.fill();
  std::vector<std::unique_ptr<EnginePair>> pairs;
  for (const std::uint32_t count : options.counts) {
    EnginePair::Settings settings;
    (are_rails ? settings.rails : settings.peers) = count;
    settings.depth = options.depth;
    settings.moves_bytes = !options.null;
    // On two, the provider's queue would move from one to the other with each write.
    if (options.null) settings.cores = {static_cast<unsigned>(allowed_cores().at(0))};
    pairs.push_back(std::make_unique<EnginePair>(settings, plan, source, target));
  }
  Scaling scaling;
  scaling.of = of;
  scaling.operation = "page";
  scaling.settings = {{"provider", "scripted"},
                      {"nic_mbps", options.nic_mbps},
                      {"page_bytes", page_bytes},
                      {"pages", options.pages},
                      {"list_pages", options.list_pages},
                      {"depth", options.depth},
                      {"passes", passes},
                      {"null", options.null},
                      {"per_peer", options.per_peer},
                      {"rounds", options.rounds}};
  measure(options, scaling, [&](std::size_t point) {
    return pairs[point]->round(options.per_peer ? options.counts[point] * passes : passes);
  });
  return scaling;
}

Scaling measure_requests(const Options& options) {
  const auto most = *std::max_element(options.counts.begin(), options.counts.end());
  RequestPair pair(options.provider, std::min(most, options.requests));
  Scaling scaling;
  scaling.of = "in flight";
  scaling.operation = "request";
  scaling.has_latencies = true;
  scaling.settings = {{"provider", options.provider},
                      {"requests", options.requests},
                      {"request_bytes", RequestPair::request_bytes()},
                      {"rounds", options.rounds}};
  measure(options, scaling,
          [&](std::size_t point) { return pair.round(options.requests, options.counts[point]); });
  return scaling;
}

void add_common(CLI::App& command, Options& options, int most) {
  command.add_option("--counts", options.counts, "what to measure, the first as the yardstick")
      ->delimiter(',')
      ->check(CLI::Range(1, most))
      ->capture_default_str();
  command.add_option("--rounds", options.rounds, "of each count, in turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--json", options.json_path, "file for the results; - prints only them");
  command.add_option("--plot", options.plot_path, "SVG file for the curve");
}

void add_pages(CLI::App& command, Options& options, int most) {
  add_common(command, options, most);
  command.add_option("--mbps", options.nic_mbps, "10^6 bytes a second of each NIC; 0: no limit")
      ->capture_default_str();
  command.add_option("--page-bytes", options.page_bytes, "a multiple of 8")->capture_default_str();
  command.add_option("--pages", options.pages, "in the memory of either side")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--list-pages", options.list_pages, "pages of a submission")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--depth", options.depth, "submissions outstanding, to all peers together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--round-bytes", options.round_bytes, "of a round, whatever the count")
      ->capture_default_str();
}

int run(int count, char** arguments) {
  Options rails;
  rails.counts = {1, 2, 3, 4};
  rails.nic_mbps = 250;
  Options peers;
  peers.counts = {1, 4, 16, 64, 256};
  peers.nic_mbps = 1000;
  Options requests;
  requests.counts = {1, 10, 100, 1000};
  CLI::App app("How speed holds with rails, peers and requests in flight.", "scaling");
  app.require_subcommand(1);
  auto& rails_command = *app.add_subcommand("rails", "NICs with a set bandwidth, one peer");
  auto& peers_command = *app.add_subcommand("peers", "lists of pages to one peer after the other");
  auto& requests_command = *app.add_subcommand("requests", "small requests by the messenger");
  add_pages(rails_command, rails, kMaxRails);
  add_pages(peers_command, peers, 1024);
  peers_command.add_flag("--null", peers.null, "writes complete at once and move nothing");
  peers_command.add_flag("--per-peer", peers.per_peer, "--round-bytes are those to each peer");
  add_common(requests_command, requests, 100'000);
  requests_command.add_option("--provider", requests.provider, "as in TransferEngineOptions")
      ->capture_default_str();
  requests_command.add_option("--requests", requests.requests, "of a round, whatever the count")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, count, arguments);
  ::setenv("FI_PROVIDER_PATH", KVRAIL_SCRIPTED_PROVIDER_DIR, 0);

  const bool are_requests = requests_command.parsed();
  const Options& options = are_requests ? requests : rails_command.parsed() ? rails : peers;
  const Scaling scaling = are_requests
                              ? measure_requests(options)
                              : measure_pages(options, rails_command.parsed() ? "rails" : "peers");
  if (options.json_path != "-") put_text("-", scaling_text(scaling));
  if (!options.json_path.empty()) put_text(options.json_path, scaling_json(scaling).dump(2) + "\n");
  if (!options.plot_path.empty()) put_text(options.plot_path, scaling_svg(scaling));
  return 0;
}

}  // namespace
}  // namespace kvrail::perf

int main(int count, char** arguments) {
  return kvrail::perf::run_program("scaling", [&] { return kvrail::perf::run(count, arguments); });
}

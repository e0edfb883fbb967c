// What the library itself costs, without a network: pages, none of which can be merged or all of
// which are, and their immediates, over a provider that completes at once and moves nothing.
// docs/benchmarks.md.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/transfer_engine.h"
#include "perf/host.h"
#include "perf/introduce.h"
#include "perf/kvrail_echo.h"
#include "perf/kvrail_flow.h"
#include "perf/pattern_memory.h"
#include "perf/program.h"

namespace kvrail::perf {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
// Enough that the sender never waits for it.
constexpr std::uint32_t kCredit = 65536;
constexpr std::uint32_t kSpinUs = 200;

struct Options {
  std::uint32_t pages = 1024;
  std::uint32_t depth = 16;
  std::uint64_t writes = 2'000'000;  // before any are merged: one a page
  Layout layout = Layout::kApart;
  std::uint32_t rounds = 5;
  std::vector<std::uint32_t> list_pages = {64, 1};
  std::string side = "both";
  std::vector<unsigned> cores;  // of the sending and of the receiving worker
};

// The threads of this process that fabric-lib has named, and those that they started.
std::set<int> worker_threads() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string name;
    std::getline(file, name);
    if (name.starts_with("kvrail-fab")) found.insert(std::stoi(entry.path().filename().string()));
  }
  return found;
}

// An engine, and the thread that does its work.
class Side {
 public:
  Side(std::uint32_t spin_us, unsigned core) {
    TransferEngineOptions options;
    options.provider = "scripted";
    options.spin_us = spin_us;
    options.receive_credit = kCredit;
    options.device_groups[0].cores = {core};
    const auto before = worker_threads();
    engine = std::make_unique<TransferEngine>(std::move(options));
    // The oldest is the worker itself.
    for (const int thread : worker_threads()) {
      if (before.count(thread) != 0) continue;
      worker_ = fmt::format("/proc/self/task/{}/schedstat", thread);
      break;
    }
  }

  // CPU time of the worker so far.
  double cpu_ns() const {
    double time = 0;
    std::ifstream(worker_) >> time;
    return time;
  }

  std::unique_ptr<TransferEngine> engine;
  PeerId peer;

 private:
  std::string worker_;  // its file of CPU times
};

// Two engines of this process that know each other.
struct Sides {
  Sides(const Options& options, std::uint32_t receiver_spin_us)
      : source(kSpinUs, options.cores.at(0)), target(receiver_spin_us, options.cores.at(1)) {
    const Introduced peers = introduce(*source.engine, *target.engine, "target");
    source.peer = peers.target;
    target.peer = peers.source;
  }

  Side source;
  Side target;
};

struct Costs {
  double send_ns = 0;
  double receive_ns = 0;
};

class Ceiling {
 public:
  Ceiling(Sides& sides, const Options& options, const PagePlan& plan)
      : sides_(sides),
        runs_(plan),
        layout_(options.layout),
        depth_(options.depth),
        memory_(plan.memory_bytes()) {
    from_ = sides.source.engine->register_memory(kPerfGroup, memory_.data(), memory_.size_bytes());
    to_ = sides.target.engine->register_memory(kPerfGroup, memory_.data(), memory_.size_bytes());
    route_.source = from_.id();
    route_.target = sides.source.engine->import_region(sides.source.peer, to_.descriptor());
  }

  // To send a page, and to receive an immediate, of which there are as many as writes.
  Costs round(std::uint64_t passes) {
    TransferEngine& receiver = *sides_.target.engine;
    route_.counter = receiver.take_counter(sides_.target.peer, kPerfGroup);
    const auto outcome = std::make_shared<Outcome>();
    auto arrived = outcome->future();
    receiver.expect(
        sides_.target.peer, kPerfGroup, route_.counter, passes * runs_.units,
        [outcome](const Status& status, const CounterReport&) { outcome->set(status); });
    const double send_before = sides_.source.cpu_ns();
    const double receive_before = sides_.target.cpu_ns();
    const auto flow = std::make_shared<KvrailFlow>(
        *sides_.source.engine, std::vector<Route>{{sides_.source.peer, route_}}, runs_);
    const SendReport sent = flow->run(passes, depth_);
    wait_for(arrived, "the immediates");
    const std::uint64_t pages = passes * runs_.units;
    if (layout_ == Layout::kApart && sent.writes != pages) {
      throw Error(ErrorCode::kFabric, "writes were merged");
    }
    receiver.release_counter(sides_.target.peer, kPerfGroup, route_.counter);
    return {(sides_.source.cpu_ns() - send_before) / static_cast<double>(pages),
            (sides_.target.cpu_ns() - receive_before) / static_cast<double>(sent.writes)};
  }

 private:
  Sides& sides_;
  const RunLists runs_;
  const Layout layout_;
  const std::uint32_t depth_;
  PatternMemory memory_;
  MemoryRegion from_;
  MemoryRegion to_;
  WriteList route_;
};

std::uint64_t passes_of(const Options& options) {
  return std::max<std::uint64_t>(options.writes / options.pages, 1);
}

// The best of some rounds: whatever else the machine does only adds.
Costs measure(const Options& options, std::uint32_t receiver_spin_us, std::uint32_t list_pages) {
  Sides sides(options, receiver_spin_us);
  const auto plan = make_page_plan(options.layout, kPageBytes, options.pages, list_pages);
  Ceiling ceiling(sides, options, plan);
  const std::uint64_t passes = passes_of(options);
  Costs best = ceiling.round(std::max<std::uint64_t>(passes / 10, 1));
  for (std::uint32_t i = 0; i < options.rounds; ++i) {
    const Costs costs = ceiling.round(passes);
    if (i == 0) best = costs;
    best.send_ns = std::min(best.send_ns, costs.send_ns);
    best.receive_ns = std::min(best.receive_ns, costs.receive_ns);
  }
  return best;
}

std::string cost_text(double each_ns) {
  return fmt::format("{:>16.1f}{:>12.2f}", each_ns, 1e3 / each_ns);
}

void report(const Options& options, std::uint32_t list_pages) {
  std::string row = fmt::format("{:<12}", list_pages);
  // A receiver that spins grants credit in time, but its time is not the immediates' alone; one
  // that dozes takes many at a time, and does nothing else.
  if (options.side != "receive") {
    row += cost_text(measure(options, kSpinUs, list_pages).send_ns);
  }
  if (options.side != "send") row += cost_text(measure(options, 0, list_pages).receive_ns);
  fmt::print("{}\n", row);
}

int run(int count, char** arguments) {
  Options options;
  CLI::App app("Writes and immediates per second that the library itself allows.", "ceiling");
  std::string layout = to_string(options.layout);
  app.add_option("--pages", options.pages, "pages")->capture_default_str();
  app.add_option("--layout", layout, "apart: a write for each page; neighbouring: merged ones")
      ->check(CLI::IsMember({"apart", "neighbouring"}))
      ->capture_default_str();
  app.add_option("--depth", options.depth, "submissions outstanding")->capture_default_str();
  app.add_option("--writes", options.writes, "pages of a round")->capture_default_str();
  app.add_option("--rounds", options.rounds, "the best of which counts")->capture_default_str();
  app.add_option("--list-pages", options.list_pages, "pages of a submission")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--side", options.side, "whose costs: both, send or receive")
      ->check(CLI::IsMember({"both", "send", "receive"}))
      ->capture_default_str();
  // Two cores would pay for the provider's queue, whose memory moves from one to the other.
  app.add_option("--cores", options.cores, "of the sending and the receiving worker; else one core")
      ->delimiter(',')
      ->expected(2);
  CLI11_PARSE(app, count, arguments);
  options.layout = parse_layout(layout);
  ::setenv("FI_PROVIDER_PATH", KVRAIL_SCRIPTED_PROVIDER_DIR, 0);
  ::setenv("KVRAIL_SCRIPTED_NULL", "1", 1);
  if (options.cores.empty()) {
    options.cores.assign(2, static_cast<unsigned>(allowed_cores().at(0)));
  }
  fmt::print("pages of 4 KiB, {}; the best of {} rounds of {} pages\n", layout, options.rounds,
             passes_of(options) * options.pages);
  std::string names = fmt::format("{:<12}", "list pages");
  if (options.side != "receive") names += fmt::format("{:>16}{:>12}", "ns per page", "million/s");
  if (options.side != "send") names += fmt::format("{:>16}{:>12}", "ns/immediate", "million/s");
  fmt::print("{}\n", names);
  for (const std::uint32_t list_pages : options.list_pages) report(options, list_pages);
  return 0;
}

}  // namespace
}  // namespace kvrail::perf

int main(int count, char** arguments) {
  return kvrail::perf::run_program("ceiling", [&] { return kvrail::perf::run(count, arguments); });
}

// What an engine takes while it does nothing, how fast it is awake, and how much memory a very long
// submission takes. docs/benchmarks.md.

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/transfer_engine.h"
#include "perf/host.h"
#include "perf/introduce.h"
#include "perf/kvrail_echo.h"
#include "perf/outcome.h"
#include "perf/pattern_memory.h"
#include "perf/program.h"
#include "perf/results.h"

namespace kvrail::perf {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// Two engines of this process that know each other, and a page of each.
struct Engines {
  Engines(const std::string& provider, std::size_t device_groups, std::uint64_t memory_bytes)
      : target(engine(provider, device_groups)),
        source(engine(provider, device_groups)),
        source_memory(memory_bytes),
        target_memory(memory_bytes),
        peers(introduce(*source, *target, "", true)) {
    from = source->register_memory(kPerfGroup, source_memory.data(), memory_bytes);
    to = target->register_memory(kPerfGroup, target_memory.data(), memory_bytes);
    route.source = from.id();
    route.target = source->import_region(peers.target, to.descriptor());
  }

  static std::unique_ptr<TransferEngine> engine(const std::string& provider, std::size_t groups) {
    TransferEngineOptions options;
    options.provider = provider;
    options.device_groups.resize(groups);
    return std::make_unique<TransferEngine>(std::move(options));
  }

  // From now on `units` are expected at the target.
  void expect(std::uint64_t units) {
    route.counter = target->take_counter(peers.source, kPerfGroup);
    arrived = std::make_shared<std::promise<CounterReport>>();
    target->expect(
        peers.source, kPerfGroup, route.counter, units,
        [arrived = arrived](const Status& status, const CounterReport& report) {
          if (status.ok()) return arrived->set_value(report);
          arrived->set_exception(std::make_exception_ptr(Error(status.code(), status.text())));
        });
  }
  // All of what was expected; returns when it has arrived.
  CounterReport write(std::vector<WriteRun> runs) {
    WriteList list = route;
    list.runs = std::move(runs);
    const auto outcome = std::make_shared<Outcome>();
    auto done = outcome->future();
    auto all_arrived = arrived->get_future();
    const Status submitted = source->submit(
        peers.target, std::move(list), FullQueue::kBlock,
        [outcome](const Status& status, const WriteReport&) { outcome->set(status); });
    if (!submitted.ok()) throw Error(submitted.code(), submitted.text());
    wait_for(done, "a submission");
    const CounterReport report = all_arrived.get();
    target->release_counter(peers.source, kPerfGroup, route.counter);
    return report;
  }
  CounterReport write_page() {
    return write({{.source_offset = 0, .target_offset = 0, .size_bytes = kPageBytes}});
  }

  std::unique_ptr<TransferEngine> target;
  std::unique_ptr<TransferEngine> source;
  PatternMemory source_memory;
  PatternMemory target_memory;
  Introduced peers;
  MemoryRegion from;
  MemoryRegion to;
  WriteList route;
  std::shared_ptr<std::promise<CounterReport>> arrived;
};

struct IdleOptions {
  std::string provider = "scripted";
  std::size_t device_groups = 8;
  double seconds = 10;
};

void measure_idle(const IdleOptions& options) {
  Engines engines(options.provider, options.device_groups, kPageBytes);
  engines.expect(1);
  engines.write_page();
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  const double used = cpu_seconds() - before;
  fmt::print(
      "idle: two engines of {} device groups over {}: {:.3f} s of CPU in {} s, {:.3f} % of a "
      "core each\n",
      options.device_groups, options.provider, used, options.seconds,
      100 * used / options.seconds / 2);
}

struct FirstOptions {
  std::vector<std::string> providers = {"tcp", "shm"};
  std::uint32_t idle_ms = 100;
  std::uint32_t writes = 50;
};

// `expecting`: the target has waited for it all the time, as a decode node does for its prompt.
void measure_first(Engines& engines, const FirstOptions& options, const std::string& provider,
                   bool expecting) {
  std::vector<double> times_us;
  const double cpu_before = cpu_seconds();
  const std::int64_t start_ns = monotonic_ns();
  for (std::uint32_t i = 0; i < options.writes; ++i) {
    if (expecting) engines.expect(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(options.idle_ms));
    if (!expecting) engines.expect(1);
    const std::int64_t begun_ns = monotonic_ns();
    const CounterReport report = engines.write_page();
    times_us.push_back(static_cast<double>(report.last_arrival_ns - begun_ns) / 1e3);
  }
  const double cpu =
      (cpu_seconds() - cpu_before) * 1e9 / static_cast<double>(monotonic_ns() - start_ns);
  fmt::print(
      "first write after {} ms over {}, {}: p50 {:.0f} us, p90 {:.0f} us, most {:.0f} us; CPU of "
      "both sides {:.2f} % of a core\n",
      options.idle_ms, provider, expecting ? "expected meanwhile" : "expected when it is written",
      quantile(times_us, 0.5), quantile(times_us, 0.9), quantile(times_us, 1), 100 * cpu);
}

void measure_first(const FirstOptions& options) {
  for (const std::string& provider : options.providers) {
    Engines engines(provider, 1, kPageBytes);
    for (const bool expecting : {false, true}) {
      measure_first(engines, options, provider, expecting);
    }
  }
}

struct LongOptions {
  std::string provider = "scripted";
  std::uint64_t pages = 1'000'000;
  std::uint64_t page_bytes = 64;
};

double peak_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Every other page of the source's memory to every other one of the target's, the last ones first:
// none can be merged.
void measure_long(const LongOptions& options) {
  if (options.page_bytes % 8 != 0) {
    throw Error(ErrorCode::kInvalidArgument, "--page-bytes must be a multiple of 8");
  }
  Engines engines(options.provider, 1, 2 * options.pages * options.page_bytes);
  engines.source_memory.fill();
  engines.target_memory.clear();
  std::vector<WriteRun> runs;
  runs.reserve(options.pages);
  for (std::uint64_t page = 0; page < options.pages; ++page) {
    runs.push_back({.source_offset = 2 * page * options.page_bytes,
                    .target_offset = 2 * (options.pages - 1 - page) * options.page_bytes,
                    .size_bytes = options.page_bytes});
  }
  const auto list_mib = static_cast<double>(runs.size() * sizeof(WriteRun)) / 1024 / 1024;
  const double before = peak_mib();
  engines.expect(options.pages);
  engines.write(std::move(runs));
  fmt::print(
      "{} pages of {} bytes in one submission over {}: the list of them {:.1f} MiB, the "
      "library {:.1f} MiB beside it\n",
      options.pages, options.page_bytes, options.provider, list_mib, peak_mib() - before);
  if (options.provider == "scripted") return;  // moves nothing here
  for (std::uint64_t page = 0; page < options.pages; page += 997) {
    const std::string fault =
        engines.target_memory.check_range(2 * (options.pages - 1 - page) * options.page_bytes,
                                          2 * page * options.page_bytes, options.page_bytes);
    if (!fault.empty()) throw Error(ErrorCode::kFabric, fault);
  }
}

int run(int count, char** arguments) {
  CLI::App app("What an engine takes, and how fast it is awake.", "footprint");
  app.require_subcommand(1);
  IdleOptions idle;
  CLI::App* const idle_command = app.add_subcommand("idle", "CPU of engines that do nothing");
  idle_command->add_option("--provider", idle.provider)->capture_default_str();
  idle_command->add_option("--device-groups", idle.device_groups)->capture_default_str();
  idle_command->add_option("--seconds", idle.seconds)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  FirstOptions first;
  CLI::App* const first_command = app.add_subcommand("first", "the first write after idling");
  first_command->add_option("--providers", first.providers)->delimiter(',')->capture_default_str();
  first_command->add_option("--idle-ms", first.idle_ms)->capture_default_str();
  first_command->add_option("--writes", first.writes)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  LongOptions many;
  CLI::App* const long_command = app.add_subcommand("long", "memory of a long submission");
  long_command->add_option("--provider", many.provider)->capture_default_str();
  long_command->add_option("--pages", many.pages)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  long_command->add_option("--page-bytes", many.page_bytes, "a multiple of 8")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, count, arguments);
  ::setenv("FI_PROVIDER_PATH", KVRAIL_SCRIPTED_PROVIDER_DIR, 0);
  ::setenv("KVRAIL_SCRIPTED_NULL", "1", 1);
  if (idle_command->parsed()) measure_idle(idle);
  if (first_command->parsed()) measure_first(first);
  if (long_command->parsed()) measure_long(many);
  return 0;
}

}  // namespace
}  // namespace kvrail::perf

int main(int count, char** arguments) {
  return kvrail::perf::run_program("footprint",
                                   [&] { return kvrail::perf::run(count, arguments); });
}

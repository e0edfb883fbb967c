// Measures how fast kvrail moves pages: docs/benchmarks.md.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "perf/command_line.h"
#include "perf/host.h"
#include "perf/plot.h"
#include "perf/program.h"
#include "perf/progress.h"
#include "perf/report.h"
#include "perf/source_side.h"
#include "perf/target_process.h"
#include "perf/target_side.h"

namespace kvrail::perf {
namespace {

void measure(Channel& channel, const CommandLine& line) {
  Results results;
  {
    SourceSide source(channel, line.settings, line.local);
    Progress progress(stderr);
    results = source.run(progress);
  }
  if (line.json_path != "-" && line.csv_path != "-") put_text("-", table_text(results));
  if (!line.json_path.empty()) put_text(line.json_path, report_json(results).dump(2) + "\n");
  if (!line.plot_path.empty()) put_text(line.plot_path, plot_svg(results));
  if (!line.csv_path.empty()) put_text(line.csv_path, csv_text(results));
}

void run_pair(CommandLine line) {
  LocalSettings target = line.local;
  if (line.cores.empty()) {
    const auto allowed = allowed_cores();
    // On one core, pinning would change nothing.
    if (allowed.size() >= 2) line.cores = {allowed[0], allowed[1]};
  }
  if (!line.cores.empty()) {
    line.local.core = line.cores[0];
    target.core = line.cores[1];
  }
  TargetProcess process(target);
  if (line.local.core >= 0) pin_to(line.local.core);
  measure(process.channel(), line);
}

void serve(const CommandLine& line) {
  ChannelListener listener(line.address);
  fmt::print("listening at {}\n", listener.address());
  std::fflush(stdout);
  do {
    const auto channel = listener.accept();
    try {
      TargetSide(*channel, line.local).serve();
    } catch (const std::exception& error) {
      if (line.once) throw;
      fmt::print(stderr, "kvrail-perf: a run ended: {}\n", error.what());
    }
  } while (!line.once);
}

// The source was told of errors, and prints them.
int serve_parent(const LocalSettings& local) {
  const auto channel = source_channel();
  try {
    TargetSide(*channel, local).serve();
  } catch (const std::exception&) {
    return 1;
  }
  return 0;
}

int run(const CommandLine& line) {
  if (line.mode == CommandLine::Mode::kPair) {
    run_pair(line);
    return 0;
  }
  if (line.local.core >= 0) pin_to(line.local.core);
  switch (line.mode) {
    case CommandLine::Mode::kServe:
      serve(line);
      break;
    case CommandLine::Mode::kRun:
      measure(*Channel::connect(line.address), line);
      break;
    case CommandLine::Mode::kTarget:
      return serve_parent(line.local);
    default:
      break;
  }
  return line.exit_code;
}

}  // namespace
}  // namespace kvrail::perf

int main(int count, char** arguments) {
  return kvrail::perf::run_program("kvrail-perf", [&] {
    return kvrail::perf::run(kvrail::perf::parse_command_line(count, arguments));
  });
}

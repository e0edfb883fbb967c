// Measures how fast kvrail moves pages: docs/benchmarks.md.

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "perf/command_line.h"
#include "perf/host.h"
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
    results = source.run();
  }
  fmt::print("{}", table_text(results));
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

int run(const CommandLine& line) {
  if (line.mode == CommandLine::Mode::kExit) return line.exit_code;
  if (line.mode == CommandLine::Mode::kPair) {
    run_pair(line);
    return 0;
  }
  if (line.local.core >= 0) pin_to(line.local.core);
  TargetSide(*source_channel(), line.local).serve();
  return 0;
}

}  // namespace
}  // namespace kvrail::perf

int main(int count, char** arguments) {
  try {
    return kvrail::perf::run(kvrail::perf::parse_command_line(count, arguments));
  } catch (const std::exception& error) {
    fmt::print(stderr, "kvrail-perf: {}\n", error.what());
    return 1;
  }
}

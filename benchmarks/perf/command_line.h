#pragma once

#include <string>
#include <vector>

#include "perf/settings.h"

namespace kvrail::perf {

// What the program was asked to do.
struct CommandLine {
  enum class Mode { kPair, kServe, kRun, kTarget, kExit };
  Mode mode = Mode::kExit;
  int exit_code = 0;  // with kExit: help was asked for, or the arguments are wrong
  Settings settings;
  LocalSettings local;
  std::vector<int> cores;  // of the source and the target, with kPair
  std::string address;     // to listen at or to connect to
  bool once = false;       // with kServe
  std::string json_path;   // of a file to write; "-": standard output; empty: none
  std::string csv_path;    // likewise
  std::string plot_path;   // of an SVG file; empty: none
};

// Prints help and what is wrong with the arguments.
CommandLine parse_command_line(int count, char** arguments);

}  // namespace kvrail::perf

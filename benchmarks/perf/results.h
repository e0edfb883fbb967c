#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/settings.h"
#include "perf/signal_times.h"

namespace kvrail::perf {

// What one round of one contender took. Operations are pages, or messages there and back.
struct Round {
  double seconds = 0;
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
  std::uint64_t writes = 0;  // on the network
  double source_cpu_s = 0;
  double target_cpu_s = 0;
  std::vector<double> latencies_us;  // of lists or messages; may be empty
};

// One contender in one test at one size.
struct Case {
  std::string test;
  std::string layout;
  std::string contender;
  std::uint64_t page_bytes = 0;
  std::uint32_t pages = 0;
  std::uint32_t list_pages = 0;
  std::uint64_t passes = 0;    // over all pages, of a round; 0 with messages
  std::uint32_t messages = 0;  // of a round; 0 with pages
  std::vector<Round> rounds;
};

struct Results {
  Json environment;
  Json settings;
  // Contenders of the same test and size follow each other, with as many rounds each; the first is
  // the one that is compared with the others.
  std::vector<Case> cases;
  std::vector<SignalTimes> signals;
};

// Smallest, median and largest of some values; zeroes for none.
struct Spread {
  double min = 0;
  double median = 0;
  double max = 0;
};
Spread spread_of(std::vector<double> values);
// The value that a part of all (0 to 1) does not exceed; 0 for none.
double quantile(std::vector<double> values, double part);

// A case in figures.
struct Summary {
  Spread gb_per_s;
  Spread operations_per_s;
  double writes_per_operation = 0;
  double source_cpu_s_per_gb = 0;
  double target_cpu_s_per_gb = 0;
  Spread latency_us;
  double latency_p99_us = 0;
};
Summary summarize(const Case& result);

// A contender against another one, round by round. Above 1 it is the faster one.
struct Ratio {
  std::string test;
  std::uint64_t page_bytes = 0;
  std::string of;
  std::string to;
  Spread speed;
};
std::vector<Ratio> ratios_of(const Results& results);

}  // namespace kvrail::perf

#pragma once

#include <string>

#include "perf/results.h"

namespace kvrail::perf {

// For people: where it was measured, a row per case, the ratios.
std::string table_text(const Results& results);
// For machines: everything, also each round (without single latencies).
Json report_json(const Results& results);
// The same of one case.
Json case_json(const Case& result);
// A row per case under a row of names.
std::string csv_text(const Results& results);

// Into a file, or "-": to standard output. Throws Error (kInvalidArgument).
void put_text(const std::string& path, const std::string& text);

}  // namespace kvrail::perf

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/scene.h"

namespace kvrail::perf {

// One row of the table of tests.
struct Test {
  enum class Rounds {
    kPages,     // as many passes over all pages as fill a round
    kMessages,  // there and back
    kRequest,   // one request
    kSignals,   // layer signals of small requests
  };
  std::string name;
  Rounds rounds = Rounds::kPages;
  Scene scene;                            // of the first size
  std::vector<std::uint64_t> page_bytes;  // one scene each
};

// The tests that the settings name, in their order. Throws Error (kInvalidArgument).
std::vector<Test> choose_tests(const Settings& settings);

bool needs_messenger(const Settings& settings);

}  // namespace kvrail::perf

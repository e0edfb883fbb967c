#include "perf/test_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvrail/error.h"

namespace kvrail::perf {

std::vector<Test> choose_tests(const Settings& settings) {
  std::vector<std::string> all = {"kvrail"};
  std::vector<std::string> plain = {"kvrail"};
  std::vector<std::string> request = {"messenger", "kvrail"};
  if (settings.baseline) {
    all = {"kvrail", "best", "naive"};
    // A single page leaves nothing to merge.
    plain = {"kvrail", "naive"};
    request = {"messenger", "kvrail", "best", "naive"};
  }
  using Pages = Scene::Pages;
  const std::vector<Test> table = {
      {"write",
       Test::Rounds::kPages,
       {Pages::kPlain, settings.layout, 0, settings.pages, settings.list_pages, all},
       settings.page_bytes},
      // Eight bytes, each in a submission of its own.
      {"immediate",
       Test::Rounds::kPages,
       {Pages::kPlain, Layout::kApart, 0, settings.pages, 1, plain},
       {8}},
      {"message",
       Test::Rounds::kMessages,
       {Pages::kPlain, Layout::kNeighbouring, 0, 1, 1, plain},
       {4096}},
      {"kv", Test::Rounds::kRequest, {Pages::kRequest, settings.layout, 0, 0, 0, request}, {0}},
      {"counter",
       Test::Rounds::kSignals,
       {Pages::kSignals, Layout::kNeighbouring, 0, 0, 0, {"messenger"}},
       {0}},
  };
  std::vector<Test> chosen;
  for (const std::string& name : settings.tests) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const Test& test) { return test.name == name; });
    if (found == table.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("test '{}': choose write, immediate, message, kv or counter", name));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

bool needs_messenger(const Settings& settings) {
  return std::any_of(settings.tests.begin(), settings.tests.end(),
                     [](const std::string& name) { return name == "kv" || name == "counter"; });
}

}  // namespace kvrail::perf

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "perf/contenders.h"
#include "perf/results.h"

namespace kvrail::perf {

// Of the words between the two sides.
inline constexpr int kWordsVersion = 1;

// The process that writes and measures: leads a target through all tests of the settings.
class SourceSide {
 public:
  // Tells the target, opens and connects everything. Throws Error.
  SourceSide(Channel& channel, const Settings& settings, const LocalSettings& local);

  // Throws Error, also for bytes that are wrong.
  Results run();

 private:
  // One row of the table of tests at one size.
  struct Test {
    std::string name;
    bool messages = false;
    std::uint32_t list_pages = 1;
    Layout layout = Layout::kNeighbouring;
    std::vector<std::uint64_t> page_bytes;
    std::uint32_t pages = 1;
    std::vector<std::string> contenders;
  };

  std::vector<Test> tests() const;
  void measure(const Test& test, std::uint64_t page_bytes, Results& results);
  void open(const Test& test, std::uint64_t page_bytes);
  Round round(const std::string& contender, std::uint64_t passes);
  Round messages(const std::string& contender, std::uint32_t count);
  void require_right_bytes(Transport& transport, const std::string& contender);

  Channel& channel_;
  const Settings settings_;
  Json environment_;
  PagePlan plan_;
  // Before the contenders, whose regions it holds.
  std::unique_ptr<PatternMemory> memory_;
  std::vector<Contender> contenders_;
};

}  // namespace kvrail::perf

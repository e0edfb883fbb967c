#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "perf/progress.h"
#include "perf/results.h"
#include "perf/stage.h"
#include "perf/test_table.h"

namespace kvrail::perf {

// Of the words between the two sides.
inline constexpr int kWordsVersion = 4;

// The process that writes and measures: leads a target through all tests of the settings.
class SourceSide {
 public:
  // Tells the target, opens and connects everything. Throws Error.
  SourceSide(Channel& channel, const Settings& settings, const LocalSettings& local);

  // Throws Error, also for bytes that are wrong.
  Results run(Progress& progress);

 private:
  Results run_tests(Progress& progress);
  // A round, and what else the two sides saw of it.
  struct Passes {
    Round round;
    SendReport sent;
    ArrivalReport arrived;
  };

  void measure(const Test& test, const Scene& scene, Progress& progress, Results& results);
  void measure_signals(const Test& test, Progress& progress, Results& results);
  std::uint64_t warm_up(const Test& test, const Scene& scene);
  Round one_round(const Test& test, const std::string& contender, std::uint64_t passes);
  void open(const Scene& scene);
  Passes pages(const std::string& contender, std::uint64_t passes);
  Round messages(const std::string& contender, std::uint32_t count);
  Json next_word(Transport& transport);
  void require_right_bytes(Transport& transport, const std::string& contender);

  Channel& channel_;
  const Settings settings_;
  const std::shared_ptr<const CudaDevice> gpu_;
  Json environment_;
  Stage stage_;
};

}  // namespace kvrail::perf

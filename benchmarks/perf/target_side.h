#pragma once

#include <memory>
#include <vector>

#include "perf/contenders.h"

namespace kvrail::perf {

// The process that is written to: does what the source asks for over the channel, one word after
// the other, and compares every byte after each round.
class TargetSide {
 public:
  TargetSide(Channel& channel, LocalSettings local);

  // Serves one run. Errors are told to the source and thrown.
  void serve();

 private:
  void serve_words();
  void open(const Json& word);
  void round(const Json& word);
  void messages(const Json& word);

  Channel& channel_;
  const LocalSettings local_;
  Settings settings_;
  PagePlan plan_;
  // Before the contenders, whose regions it holds.
  std::unique_ptr<PatternMemory> memory_;
  std::vector<Contender> contenders_;
};

}  // namespace kvrail::perf

#pragma once

#include <memory>

#include "perf/stage.h"

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
  void round(const Json& word);
  void messages(const Json& word);

  Channel& channel_;
  LocalSettings local_;
  std::unique_ptr<Stage> stage_;
};

}  // namespace kvrail::perf

#pragma once

#include <mutex>
#include <string>

#include "support/events.h"
#include "support/summary.h"

namespace mock_engine {

// Says on standard output what a node by itself does: every event as one line, for people or as
// JSON. Threads: add() from any.
class Console {
 public:
  explicit Console(bool json) : json_(json) {}

  void add(const Event& event);
  // At the end: the table, or as JSON the last line. True if all is well.
  bool finish();

 private:
  const bool json_;
  std::mutex mutex_;  // guards summary_ and the order of lines
  Summary summary_;
};

// The event for people, one line.
std::string to_line(const Event& event);

}  // namespace mock_engine

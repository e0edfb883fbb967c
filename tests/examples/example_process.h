#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace mock_engine {

// prefill_decode as a user starts it. Both of its outputs are read by lines. Killed, with what it
// has started, when destroyed.
class ExampleProcess {
 public:
  static constexpr std::chrono::seconds kDeadline{60};

  explicit ExampleProcess(const std::vector<std::string>& arguments);
  ~ExampleProcess();
  ExampleProcess(const ExampleProcess&) = delete;
  ExampleProcess& operator=(const ExampleProcess&) = delete;

  // The first JSON event of that kind on standard output, as soon as it is there; none if the
  // process ends or the deadline passes first.
  std::optional<nlohmann::json> wait_for_event(const std::string& kind);

  void send_signal(int signal) const;
  // The exit status, or 128 + the signal that killed it; none if it has not ended by then.
  std::optional<int> wait(std::chrono::milliseconds limit = kDeadline);

  // All events of that kind so far.
  std::vector<nlohmann::json> events(const std::string& kind) const;
  // Everything that it said, both outputs.
  std::string said() const;

 private:
  void read_lines(int descriptor);

  pid_t pid_ = -1;
  std::optional<int> status_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  int open_outputs_ = 2;

  std::thread readers_[2];
};

// Runs it to its end, expects all to be well, and returns its summary.
nlohmann::json run_to_end(const std::vector<std::string>& arguments);

}  // namespace mock_engine

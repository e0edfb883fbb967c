#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/options.h"
#include "support/summary.h"

namespace mock_engine {

// Starts the prefill and decode nodes of a run on this host, shows how far they are, and joins what
// they tell.
class Launcher {
 public:
  // `arguments`: the command line, which the nodes get as well.
  Launcher(Options options, std::vector<std::string> arguments);

  // The exit status: 0 if all is well, 1 on a wrong byte, a lost request or a process that died, 2
  // if a node could not be set up. Throws what reading the model and the trace throws.
  int run();

 private:
  using Done = std::function<bool()>;

  std::unique_ptr<ChildProcess> start(const std::string& role, std::uint32_t index,
                                      std::uint32_t of, const std::vector<std::string>& more) const;
  // Takes what the nodes tell until `done`; false if `limit` runs out first.
  bool read_until(const Done& done, std::chrono::milliseconds limit);
  void take(const Event& event);
  void show_progress(bool last);
  int worst_exit_status() const;

  const Options options_;
  const std::vector<std::string> arguments_;
  std::uint32_t requests_ = 0;
  Summary summary_;
  std::vector<std::unique_ptr<ChildProcess>> prefills_;
  std::vector<std::unique_ptr<ChildProcess>> decodes_;
  std::vector<std::string> addresses_;
  std::chrono::steady_clock::time_point next_progress_{};
  std::uint32_t shown_ = 0;  // requests, by the last progress line
};

}  // namespace mock_engine

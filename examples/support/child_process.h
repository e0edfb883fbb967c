#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace mock_engine {

// This program once more, with other arguments, whose standard output we read by lines. It dies
// with us. Threads: one.
class ChildProcess {
 public:
  // `name` says in messages which one it is. Throws std::system_error.
  ChildProcess(std::string name, const std::vector<std::string>& arguments);
  // Kills and reaps it if that has not been done.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return name_; }
  // For poll(2); -1 after the end of its output.
  int descriptor() const { return output_; }

  // Takes what can be read, calling `line` for each whole line. At the end of the output, reaps it.
  void read(const std::function<void(const std::string&)>& line);

  bool ended() const { return output_ < 0; }
  // After the end: its exit status, or 128 + the signal that killed it.
  int exit_status() const { return exit_status_; }

  void send_signal(int signal) const;

 private:
  std::string name_;
  pid_t pid_ = -1;
  int output_ = -1;
  int exit_status_ = 0;
  std::string partial_line_;
};

}  // namespace mock_engine

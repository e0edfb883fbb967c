#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "support/process_channel.h"

namespace kvrail {

// This test program, started once more with `argument` as its only one; it finds the channel with
// child_channel(). Killed and reaped when destroyed, and by the kernel when the test dies first.
//
// Threads: one at a time. Start it from the thread that runs the test: its end is the child's.
class ChildProcess {
 public:
  explicit ChildProcess(const std::string& argument);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  ProcessChannel& channel() { return *channel_; }
  pid_t pid() const { return pid_; }

  // SIGSTOP and SIGCONT; stop() returns when the kernel says that every thread has stopped.
  bool stop();
  void resume();
  // SIGKILL, and waits for the end.
  void kill();
  // Waits for the process to end by itself; -1 when it does not, else its exit status (or 128 plus
  // the signal that ended it).
  int wait_for_exit();

 private:
  std::unique_ptr<ProcessChannel> channel_;
  pid_t pid_ = -1;
};

// In the child: the other end of the channel. Also asks the kernel to end this process with its
// parent.
std::unique_ptr<ProcessChannel> child_channel();

}  // namespace kvrail

#pragma once

#include <sys/types.h>

#include <memory>

#include "perf/channel.h"

namespace kvrail::perf {

// A target on this host: this program once more, which ends with us. Its exit is waited for when
// destroyed; it is killed if it does not come.
class TargetProcess {
 public:
  // Throws std::system_error.
  explicit TargetProcess(const LocalSettings& local);
  ~TargetProcess();
  TargetProcess(const TargetProcess&) = delete;
  TargetProcess& operator=(const TargetProcess&) = delete;

  Channel& channel() { return *channel_; }

 private:
  pid_t pid_ = -1;
  std::unique_ptr<Channel> channel_;
};

// The first argument of the program as a target, and in it the channel to the source.
inline constexpr const char* kTargetCommand = "target";
std::unique_ptr<Channel> source_channel();

}  // namespace kvrail::perf

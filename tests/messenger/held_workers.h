#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/process_deadline.h"

namespace kvrail {

// Stops the workers of this process, as a peer does over shm that is stopped with the lock of an
// endpoint. One at a time.
class HeldWorkers {
 public:
  HeldWorkers() {
    held_ = true;
    struct sigaction action {};
    action.sa_handler = &hold;
    ::sigaction(SIGUSR2, &action, &before_);
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::ifstream(task.path() / "comm") >> name;
      if (name.starts_with("kvrail-fab")) threads_.push_back(std::stoi(task.path().filename()));
    }
    for (const int thread : threads_) ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR2);
    EXPECT_FALSE(threads_.empty());
    EXPECT_TRUE(poll_until([&] { return count_.load() == static_cast<int>(threads_.size()); }));
  }
  ~HeldWorkers() {
    release();
    ::sigaction(SIGUSR2, &before_, nullptr);
  }
  HeldWorkers(const HeldWorkers&) = delete;
  HeldWorkers& operator=(const HeldWorkers&) = delete;

  void release() {
    held_ = false;
    EXPECT_TRUE(poll_until([] { return count_.load() == 0; }));
  }

 private:
  static void hold(int) {
    count_.fetch_add(1);
    while (held_.load()) ::poll(nullptr, 0, 1);
    count_.fetch_sub(1);
  }

  static inline std::atomic<int> count_ = 0;
  static inline std::atomic<bool> held_ = false;
  std::vector<int> threads_;
  struct sigaction before_ {};
};

}  // namespace kvrail

#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace mock_engine {

// Runs slow jobs (checking, poisoning) on a thread of its own, in order, and hands what follows
// from them back to an engine's loop.
//
// Threads: post() and run_finished() by the loop's thread. What a job throws comes out of
// run_finished(). The destructor drops what has not begun.
class Background {
 public:
  Background();
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // `job` on the background thread, then `then` in a later run_finished().
  void post(std::function<void()> job, std::function<void()> then);
  void run_finished();

  // For poll(2): readable while run_finished() has something to do.
  int descriptor() const { return wake_; }

 private:
  using Work = std::pair<std::function<void()>, std::function<void()>>;
  void work();

  int wake_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable posted_;
  std::deque<Work> waiting_;
  std::vector<std::function<void()>> finished_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace mock_engine

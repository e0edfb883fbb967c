#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include "base/thread_checker.h"
#include "kvrail/error.h"
#include "wire/control_loop.h"

namespace kvrail {

class Listener;

// Something with operations in flight, which hold it in memory until shut_down().
class LoopMember {
 public:
  virtual ~LoopMember() = default;
  // On the loop's thread: cancel everything, call no handler, forget the handlers.
  virtual void shut_down() = 0;
};

// What the parts of a ControlLoop share: the io_context, its thread, the limits and the members.
// Each part holds it, so the io_context outlives every socket and timer.
//
// Threads: io(), limits(), stopping(), ended() and on_thread() from any; the rest on the loop's
// thread.
class LoopCore {
 public:
  LoopCore(ControlLimits limits, ControlLoop::ReportHandler on_report);
  ~LoopCore();
  LoopCore(const LoopCore&) = delete;
  LoopCore& operator=(const LoopCore&) = delete;

  // Once, from another thread: shuts all members down and joins the thread.
  void stop();

  asio::io_context& io() { return io_; }
  const ControlLimits& limits() const { return limits_; }
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  bool ended() const { return ended_.load(std::memory_order_relaxed); }
  bool on_thread() const { return thread_checker_.is_current(); }
  // The bytes of a Wake, with its length.
  const std::vector<std::byte>& wake_frame() const { return wake_frame_; }

  void add(LoopMember& member) { members_.insert(&member); }
  void remove(LoopMember& member) { members_.erase(&member); }
  std::vector<std::shared_ptr<Listener>>& listeners() { return listeners_; }

  // Runs a handler of the loop's user, unless the loop is stopping, and says what it threw.
  Status attempt(std::string_view what, const std::function<void()>& handler);
  // The same; what it threw is reported.
  void call(std::string_view what, const std::function<void()>& handler);
  void report(const Status& status);

 private:
  void run();
  void shut_down_members();

  const ControlLimits limits_;
  const ControlLoop::ReportHandler on_report_;
  std::vector<std::byte> wake_frame_;
  asio::io_context io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::unordered_set<LoopMember*> members_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  // Only says that handlers need not run any more; joining the thread orders everything else.
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  ThreadChecker thread_checker_;
  std::thread thread_;
};

}  // namespace kvrail

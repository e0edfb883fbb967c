#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/event_fd.h"
#include "base/logger.h"
#include "base/thread_checker.h"
#include "base/turn_clock.h"
#include "fabric/peer_group.h"
#include "fabric/rail.h"

namespace kvrail {

// The thread of one device group: it owns the group's rails, links and registrations, posts the
// writes and reads the completions.
//
// It polls while writes are outstanding or units expected; without progress for spin_us it dozes,
// on the providers' descriptors where they have them and in naps where they do not; with nothing
// outstanding or expected it sleeps until a command comes. While a turn call asks for it, it does
// neither.
class Worker {
 public:
  struct Settings {
    DeviceGroupId group;
    std::vector<unsigned> cores;
    std::uint32_t spin_us = 0;
    // Per provider the NICs of this group; a NIC that is listed n times gives n rails.
    struct ProviderNics {
      const Provider* provider = nullptr;
      std::vector<const Nic*> nics;
    };
    std::vector<ProviderNics> providers;
  };

  // Starts the thread, pins it, opens the rails. Throws what that throws.
  Worker(const Settings& settings, std::shared_ptr<const Logger> logger);
  // Joins. Every peer group must be over; commands that wait are run first.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Any thread. Runs `command` on the worker, in order of the calls.
  void post(std::function<void()> command);
  // Any thread. The same, and waits; what the command throws is thrown here. On the worker itself
  // it runs at once.
  void run(const std::function<void()>& command);

  // Any thread. From now on `call` is made in each turn of the loop, and what it posts to this
  // worker runs in the same turn, before the peers get progress. It must not block. Returns true
  // while it waits for something that wakes nobody: the worker goes on turning then. A later call
  // takes its place; an empty one ends it. Does not wait, so that `call` may still be made for a
  // while.
  void set_turn_call(std::function<bool()> call);

  bool is_current() const { return thread_checker_.is_current(); }

  // [provider][rail]; the vectors are constant, the rails the worker's own.
  const std::vector<std::vector<std::unique_ptr<Rail>>>& rails() const { return rails_; }
  std::uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }

  // Worker only. To the group of its route, which gets progress from then on.
  void submit(Submission&& submission);
  // Worker only. The group gets progress until it wants none; call it again when it may want some.
  void activate(const std::shared_ptr<PeerGroup>& peer);
  // Worker only. Keeps a closed group until it is over, and ends it when the peer's process does;
  // then calls `over`.
  void park(std::shared_ptr<PeerGroup> peer, int process_descriptor, std::function<void()> over);

 private:
  struct Parked {
    std::shared_ptr<PeerGroup> peer;
    int process_descriptor;
    std::function<void()> over;
  };

  void main(const Settings& settings, const std::function<void(std::exception_ptr)>& started);
  void open_rails(const Settings& settings);
  void loop();
  bool run_commands();
  bool progress_peers();
  void tend_parked();
  // These return whether a rail has something to do.
  bool rest(std::int64_t idle_ns);
  bool doze(std::int64_t idle_ns);
  // Sleeps until a command comes, one of descriptors_ is readable, or the time is over; negative
  // waits without limit.
  bool sleep(std::int64_t timeout_ns);

  const std::int64_t spin_ns_;
  std::shared_ptr<const Logger> logger_;
  ThreadChecker thread_checker_;
  EventFd wake_;

  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;  // guarded by mutex_
  bool resting_ = false;                         // guarded by mutex_: post() must signal
  bool stopping_ = false;                        // guarded by mutex_
  // Whether commands_ may hold something: a hint that saves the lock (stored after the push with
  // release, loaded by the loop with acquire).
  std::atomic<bool> has_commands_{false};
  std::atomic<std::uint64_t> wakeups_{0};

  // Worker only.
  std::vector<std::vector<std::unique_ptr<Rail>>> rails_;
  std::vector<std::shared_ptr<PeerGroup>> active_;
  std::vector<Parked> parked_;
  std::vector<std::function<void()>> running_;
  std::function<bool()> turn_call_;
  TurnClock clock_;
  bool ends_ = false;                // stopping_, when commands were taken last
  std::vector<pollfd> descriptors_;  // the first is wake_, the others the rails'

  std::thread thread_;
};

}  // namespace kvrail

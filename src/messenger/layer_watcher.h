#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/logger.h"
#include "kvrail/error.h"
#include "kvrail/ids.h"
#include "kvrail/layer_counter.h"
#include "messenger/step_listener.h"
#include "messenger/watched_counter.h"

namespace kvrail {

// Reads layer counters and says which layers of which announced steps are done.
//
// Invariants
//  1. A step's signals count for that step alone: one signal too few or too many fails it and
//     leaves the steps before and after it whole.
//  2. Steps of one counter are settled in the order of their announcement; signals that came
//     between two looks are handed on one by one, in order.
//  3. Signals that belong to no announced step are counted and logged once per kind, never guessed
//     at.
//  4. The thread sleeps while every announced step has had all its signals, and turn() lets its
//     caller sleep.
//
// Threads: any, for every call. Listeners are called without the watcher's own lock, so that
// announce() does not wait for a hand-over.
class LayerWatcher {
 public:
  struct Options {
    std::uint32_t spin_us = 100;  // looks without a pause after the last change
    std::uint32_t nap_us = 20;    // pause between looks after that
  };

  LayerWatcher(Options options, const Logger& log);
  // stop().
  ~LayerWatcher();
  LayerWatcher(const LayerWatcher&) = delete;
  LayerWatcher& operator=(const LayerWatcher&) = delete;

  // Without one of these, poll_once() is the only thing that looks. Starts a thread of its own:
  void start();
  // Is looked from by the loop of another thread, which calls turn() and sleeps only after that
  // has returned false. `wake`, which any thread may call, ends such a sleep.
  void start_in_loop(std::function<void()> wake);
  // That loop's thread only: looks, if there is anything new, and calls the listeners. True while a
  // step is pending. Never waits for listeners that another look calls.
  bool turn();
  // Idempotent; must not be called from a listener. Waits for a look under way; no listener is
  // called for news afterwards, and turn() returns false.
  void stop();

  std::shared_ptr<LayerCounter> make_counter();

  // The next step of `counter`. Throws Error: kNotFound for a counter of another watcher, kLimit
  // while the oldest step that is not over is LayerCounter::kHistory steps behind,
  // kInvalidArgument for a map of more signals than a counter can tell apart.
  StepId announce(const LayerCounter& counter, std::shared_ptr<const SignalMap> map,
                  std::shared_ptr<StepListener> listener);

  // The step will not run. One that has been signalled fails instead; one that is over is left.
  // Must come before the start of a later step.
  void discard(const LayerCounter& counter, StepId step);

  // Fails a step that is not over; whatever it still signals is ignored.
  void fail(const LayerCounter& counter, StepId step, const Status& reason);

  // One look at every counter; says whether anything was new. Calls the listeners.
  bool poll_once();

  std::uint64_t stray_signals() const { return stray_signals_.load(std::memory_order_relaxed); }
  std::uint64_t steps_failed() const;

 private:
  static constexpr std::uint64_t kNoRevision = ~std::uint64_t{0};
  // What a loop compares the counters with, without the lock.
  struct View {
    std::uint64_t revision = kNoRevision;
    bool waits = false;
    std::vector<std::shared_ptr<WatchedCounter>> watched;  // if anything waits
    std::vector<LayerCount> seen;                          // of those
  };

  void run();
  // Looks without the lock until a word or an announcement is new, and at most for one nap.
  void wait_for_news(std::int64_t last_news_ns);
  bool view_is_old() const { return revision_.load(std::memory_order_relaxed) != view_.revision; }
  bool has_news() const;
  // Under look_mutex_.
  bool look();
  // Under mutex_.
  void renew_view();
  WatchedCounter& find(const LayerCounter& counter) const;
  bool waits() const;
  void count_stray(const WatchedCounter::News& news);

  // Constant after construction.
  const Options options_;
  const Logger& log_;

  // Held by whoever looks, around the look and its calls, so that calls come in order. Taken before
  // mutex_.
  std::mutex look_mutex_;
  std::vector<StepCall> calls_;  // guarded by look_mutex_

  // Guarded by mutex_ (the counters' fields too, but for the counter itself).
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // of the thread
  std::vector<std::shared_ptr<WatchedCounter>> watched_;
  bool stopping_ = false;
  bool logged_early_stray_ = false;
  bool logged_unknown_stray_ = false;
  std::uint64_t failed_in_dropped_counters_ = 0;

  std::function<void()> wake_loop_;  // of start_in_loop(); constant once a step can be announced
  bool loop_may_sleep_ = false;      // turn() has returned false, or is about to

  // Grows under mutex_ with every change there; who looks compares it while it spins (relaxed: what
  // has changed is read under mutex_).
  std::atomic<std::uint64_t> revision_{0};
  std::atomic<std::uint64_t> stray_signals_{0};

  View view_;  // the thread's own, or that of the loop
  std::thread thread_;
};

}  // namespace kvrail

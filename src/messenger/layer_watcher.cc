#include "messenger/layer_watcher.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/thread.h"

namespace kvrail {

LayerWatcher::LayerWatcher(Options options, const Logger& log) : options_(options), log_(log) {}

LayerWatcher::~LayerWatcher() { stop(); }

void LayerWatcher::start() {
  thread_ = std::thread([this] { run(); });
}

void LayerWatcher::start_in_loop(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_loop_ = std::move(wake);
  loop_may_sleep_ = true;
}

void LayerWatcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    revision_.fetch_add(1, std::memory_order_relaxed);
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  // Whoever looks at this moment finishes its calls first.
  const std::lock_guard look_lock(look_mutex_);
}

std::shared_ptr<LayerCounter> LayerWatcher::make_counter() {
  auto watched = std::make_shared<WatchedCounter>();
  const std::lock_guard lock(mutex_);
  // Counters that the engine has let go of, and that nothing waits for.
  std::erase_if(watched_, [this](const auto& other) {
    if (other->counter().use_count() > 1 || other->waits()) return false;
    failed_in_dropped_counters_ += other->steps_failed();
    return true;
  });
  watched_.push_back(watched);
  revision_.fetch_add(1, std::memory_order_relaxed);
  return watched->counter();
}

StepId LayerWatcher::announce(const LayerCounter& counter, std::shared_ptr<const SignalMap> map,
                              std::shared_ptr<StepListener> listener) {
  // A counter stops at kMaxSignals: one signal too many must still be told from the last one.
  if (map->size() >= LayerCounter::kMaxSignals) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("signal_map has {} signals; a step may have {}", map->size(),
                            LayerCounter::kMaxSignals - 1));
  }
  StepId step;
  bool wake_loop = false;
  for (bool looked = false;; looked = true) {
    {
      const std::lock_guard lock(mutex_);
      WatchedCounter& watched = find(counter);
      if (watched.has_room()) {
        step = watched.announce(std::move(map), std::move(listener));
        revision_.fetch_add(1, std::memory_order_relaxed);
        wake_loop = std::exchange(loop_may_sleep_, false);
        break;
      }
      if (looked) {
        throw Error(ErrorCode::kLimit,
                    fmt::format("step {} is not over; at most {} steps of one layer counter may be "
                                "announced after it",
                                watched.oldest().value(), LayerCounter::kHistory));
      }
    }
    poll_once();
  }
  wake_.notify_one();
  if (wake_loop) wake_loop_();
  return step;
}

void LayerWatcher::discard(const LayerCounter& counter, StepId step) {
  std::vector<StepCall> calls;
  {
    const std::lock_guard lock(mutex_);
    find(counter).discard(step, calls);
    revision_.fetch_add(1, std::memory_order_relaxed);
  }
  deliver(calls);
}

void LayerWatcher::fail(const LayerCounter& counter, StepId step, const Status& reason) {
  std::vector<StepCall> calls;
  {
    const std::lock_guard lock(mutex_);
    find(counter).fail(step, reason, calls);
    revision_.fetch_add(1, std::memory_order_relaxed);
  }
  deliver(calls);
}

bool LayerWatcher::poll_once() {
  const std::lock_guard look_lock(look_mutex_);
  return look();
}

bool LayerWatcher::look() {
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    for (const auto& watched : watched_) {
      const WatchedCounter::News news = watched->look(now_ns(), calls_);
      any |= news.any;
      if (news.stray_signals > 0) count_stray(news);
    }
  }
  deliver(calls_);
  return any;
}

bool LayerWatcher::turn() {
  if (view_is_old()) {
    const std::lock_guard lock(mutex_);
    renew_view();
    loop_may_sleep_ = !view_.waits;
  }
  if (!view_.waits) return false;
  if (!has_news()) return true;
  // Another that looks at this moment hands on what is new.
  const std::unique_lock look_lock(look_mutex_, std::try_to_lock);
  if (!look_lock) return true;
  look();
  // Renewed in the next turn: what was submitted just now comes first.
  view_.revision = kNoRevision;
  return true;
}

std::uint64_t LayerWatcher::steps_failed() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t failed = failed_in_dropped_counters_;
  for (const auto& watched : watched_) failed += watched->steps_failed();
  return failed;
}

void LayerWatcher::run() {
  name_this_thread("kvrail-watch");
  // Naps are as long as they say: by default the kernel may add 50 us.
  ::prctl(PR_SET_TIMERSLACK, 1'000UL);
  std::int64_t last_news_ns = now_ns();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      renew_view();
      if (!stopping_ && !view_.waits) {
        wake_.wait(lock, [this] { return stopping_ || waits(); });
        last_news_ns = now_ns();
        renew_view();
      }
      if (stopping_) return;
    }
    wait_for_news(last_news_ns);
    if (poll_once()) last_news_ns = now_ns();
  }
}

void LayerWatcher::wait_for_news(std::int64_t last_news_ns) {
  constexpr int kLooksPerYield = 32;
  const std::int64_t spin_until_ns = last_news_ns + std::int64_t{options_.spin_us} * 1000;
  do {
    for (int look = 0; look < kLooksPerYield; ++look) {
      if (view_is_old() || has_news()) return;
      cpu_relax();
    }
    // The pass may run on this core.
    std::this_thread::yield();
  } while (now_ns() < spin_until_ns);
  std::this_thread::sleep_for(std::chrono::microseconds(options_.nap_us));
}

bool LayerWatcher::has_news() const {
  for (std::size_t i = 0; i < view_.watched.size(); ++i) {
    if (view_.watched[i]->counter()->read() != view_.seen[i]) return true;
  }
  return false;
}

void LayerWatcher::renew_view() {
  view_.revision = revision_.load(std::memory_order_relaxed);
  view_.waits = !stopping_ && waits();
  view_.watched.clear();
  view_.seen.clear();
  if (!view_.waits) return;
  view_.watched = watched_;
  for (const auto& each : watched_) view_.seen.push_back(each->seen());
}

WatchedCounter& LayerWatcher::find(const LayerCounter& counter) const {
  for (const auto& watched : watched_) {
    if (watched->counter().get() == &counter) return *watched;
  }
  throw Error(ErrorCode::kNotFound,
              "this layer counter is none that this messenger's make_layer_counter returned");
}

bool LayerWatcher::waits() const {
  return std::any_of(watched_.begin(), watched_.end(),
                     [](const auto& watched) { return watched->waits(); });
}

void LayerWatcher::count_stray(const WatchedCounter::News& news) {
  stray_signals_.fetch_add(news.stray_signals, std::memory_order_relaxed);
  if (news.stray_step == StepId()) {
    if (!std::exchange(logged_early_stray_, true)) {
      log_.warning("{} layer signals before their counter's first step; further ones are counted",
                   news.stray_signals);
    }
  } else if (!std::exchange(logged_unknown_stray_, true)) {
    log_.warning(
        "{} layer signals of step {}, which is not announced, or was discarded; further ones are "
        "counted",
        news.stray_signals, news.stray_step.value());
  }
}

}  // namespace kvrail

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
  for (bool looked = false;; looked = true) {
    {
      const std::lock_guard lock(mutex_);
      WatchedCounter& watched = find(counter);
      if (watched.has_room()) {
        step = watched.announce(std::move(map), std::move(listener));
        revision_.fetch_add(1, std::memory_order_relaxed);
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
  std::vector<std::shared_ptr<WatchedCounter>> watched;
  std::int64_t last_news_ns = now_ns();
  for (;;) {
    std::uint64_t revision = 0;
    {
      std::unique_lock lock(mutex_);
      if (!stopping_ && !waits()) {
        watched.clear();
        wake_.wait(lock, [this] { return stopping_ || waits(); });
        last_news_ns = now_ns();
      }
      if (stopping_) return;
      revision = revision_.load(std::memory_order_relaxed);
      watched = watched_;
    }
    if (poll_once()) last_news_ns = now_ns();
    wait_for_news(watched, revision, last_news_ns);
  }
}

void LayerWatcher::wait_for_news(const std::vector<std::shared_ptr<WatchedCounter>>& watched,
                                 std::uint64_t revision, std::int64_t last_news_ns) {
  constexpr int kLooksPerYield = 32;
  seen_.clear();
  {
    const std::lock_guard lock(mutex_);
    if (!waits()) return;
    for (const auto& each : watched) seen_.push_back(each->seen());
  }
  const auto news = [&] {
    if (revision_.load(std::memory_order_relaxed) != revision) return true;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (watched[i]->counter()->read() != seen_[i]) return true;
    }
    return false;
  };
  const std::int64_t spin_until_ns = last_news_ns + std::int64_t{options_.spin_us} * 1000;
  do {
    for (int look = 0; look < kLooksPerYield; ++look) {
      if (news()) return;
      cpu_relax();
    }
    // The pass may run on this core.
    std::this_thread::yield();
  } while (now_ns() < spin_until_ns);
  std::this_thread::sleep_for(std::chrono::microseconds(options_.nap_us));
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

#include "fabric/worker.h"

#include <sched.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/thread.h"

namespace kvrail {
namespace {

// Naps of a worker whose provider has nothing to wait on are a sixteenth of the time without
// progress, within these bounds: what comes late is seen little later, and a long wait costs
// little.
constexpr std::int64_t kShortNapNs = 50'000;
constexpr std::int64_t kLongNapNs = 1'000'000;
constexpr std::int64_t kNapsPerWait = 16;
// Dozing on descriptors is cut short, in case a provider does not signal: by more when nothing of
// ours is under way.
constexpr std::int64_t kDozeNs = 2'000'000;
// Turns without progress, some us, before the core is offered to others in each, which takes longer
// than the rest of such a turn. A worker that must go on turning offers it once in so many.
constexpr std::uint64_t kBriskTurns = 32;
constexpr std::int64_t kParkedCheckNs = 20'000'000;

}  // namespace

Worker::Worker(const Settings& settings, std::shared_ptr<const Logger> logger)
    : spin_ns_(std::int64_t{settings.spin_us} * 1000), logger_(std::move(logger)) {
  std::promise<void> started;
  std::future<void> result = started.get_future();
  thread_ = std::thread([&, settings] {
    main(settings, [&started](std::exception_ptr error) {
      if (error) {
        started.set_exception(std::move(error));
      } else {
        started.set_value();
      }
    });
  });
  try {
    result.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  has_commands_.store(true, std::memory_order_release);
  wake_.signal();
  thread_.join();
}

void Worker::main(const Settings& settings,
                  const std::function<void(std::exception_ptr)>& started) {
  try {
    thread_checker_.bind();
    name_this_thread(fmt::format("kvrail-fab{}", settings.group.value()));
    pin_this_thread(settings.cores);
    open_rails(settings);
  } catch (...) {
    rails_.clear();
    started(std::current_exception());
    return;
  }
  started(nullptr);
  loop();
  active_.clear();
  parked_.clear();
  rails_.clear();
}

void Worker::open_rails(const Settings& settings) {
  for (const Settings::ProviderNics& nics : settings.providers) {
    auto& rails = rails_.emplace_back();
    for (const Nic* nic : nics.nics) {
      const RailId id{settings.group, RailIndex(static_cast<std::uint16_t>(rails.size()))};
      rails.push_back(std::make_unique<Rail>(*nics.provider, *nic, id));
    }
  }
}

void Worker::post(std::function<void()> command) {
  bool signal = false;
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
    signal = std::exchange(resting_, false);
  }
  has_commands_.store(true, std::memory_order_release);
  if (signal) wake_.signal();
}

void Worker::run(const std::function<void()>& command) {
  if (thread_checker_.is_current()) {
    command();
    return;
  }
  // What was thrown is left to the caller before it goes on, so that one thread alone destroys it.
  std::exception_ptr fault;
  std::promise<void> done;
  post([&] {
    try {
      command();
    } catch (...) {
      fault = std::current_exception();
    }
    done.set_value();
  });
  done.get_future().wait();
  if (fault) std::rethrow_exception(fault);
}

void Worker::set_turn_call(std::function<bool()> call) {
  post([this, call = std::move(call)]() mutable { turn_call_ = std::move(call); });
}

void Worker::submit(Submission&& submission) {
  // Kept by active_ from then on.
  PeerGroup& peer = *submission.route->group;
  activate(submission.route->group);
  peer.enqueue(std::move(submission), clock_.now_ns());
  // It is posted later than its caller may have looked at a clock.
  clock_.outdate();
}

void Worker::activate(const std::shared_ptr<PeerGroup>& peer) {
  thread_checker_.check();
  if (!peer->set_active(true)) active_.push_back(peer);
}

void Worker::park(std::shared_ptr<PeerGroup> peer, int process_descriptor,
                  std::function<void()> over) {
  thread_checker_.check();
  parked_.push_back({std::move(peer), process_descriptor, std::move(over)});
}

bool Worker::run_commands() {
  if (!has_commands_.load(std::memory_order_acquire)) return false;
  {
    const std::lock_guard lock(mutex_);
    has_commands_.store(false, std::memory_order_relaxed);
    running_.swap(commands_);
    ends_ = stopping_;
  }
  for (std::function<void()>& command : running_) {
    // It was given after this turn began, and the one before it may have taken long.
    clock_.forget();
    command();
  }
  clock_.forget();
  running_.clear();
  return true;
}

bool Worker::progress_peers() {
  bool any = false;
  // Those with nothing to wait for leave at once: others may keep the worker busy for long.
  for (std::size_t i = 0; i < active_.size();) {
    PeerGroup& peer = *active_[i];
    const bool moved = peer.progress(clock_);
    any |= moved;
    if (moved || peer.wants_polling(clock_)) {
      ++i;
    } else {
      peer.set_active(false);
      std::swap(active_[i], active_.back());
      active_.pop_back();
    }
  }
  return any;
}

// Closed peers whose process may still read our memory: until it is gone.
void Worker::tend_parked() {
  for (Parked& parked : parked_) {
    if (parked.process_descriptor >= 0) {
      pollfd process{parked.process_descriptor, POLLIN, 0};
      if (::poll(&process, 1, 0) > 0) parked.peer->source_is_free();
    }
    if (parked.peer->is_over()) parked.over();
  }
  std::erase_if(parked_, [](const Parked& parked) { return parked.peer->is_over(); });
}

void Worker::loop() {
  const std::uint64_t brisk_turns = spin_ns_ > 0 ? kBriskTurns : 1;
  std::uint64_t turns_kept = 0;
  std::uint64_t idle_turns = 0;
  std::int64_t idle_since_ns = 0;
  for (;;) {
    clock_.forget();
    const bool keep_turning = turn_call_ && turn_call_();
    const bool commands = run_commands();
    if (progress_peers() || commands) {
      idle_turns = 0;
      continue;
    }
    if (ends_ && !has_commands_.load(std::memory_order_acquire)) return;
    if (keep_turning) {
      idle_turns = 0;
      if (++turns_kept % kBriskTurns == 0) {
        tend_parked();
        ::sched_yield();
      } else {
        cpu_relax();
      }
    } else if (++idle_turns < brisk_turns) {
      cpu_relax();
    } else {
      tend_parked();
      if (idle_turns == brisk_turns) idle_since_ns = clock_.now_ns();
      // A rail that has something to do is on its way to a completion: a large write takes longer
      // than the time to spin.
      if (rest(clock_.now_ns() - idle_since_ns)) idle_turns = 0;
    }
  }
}

bool Worker::rest(std::int64_t idle_ns) {
  if (active_.empty()) {
    descriptors_.resize(1);
    return sleep(parked_.empty() ? -1 : kParkedCheckNs);
  }
  if (idle_ns >= spin_ns_) return doze(idle_ns);
  ::sched_yield();
  return false;
}

bool Worker::doze(std::int64_t idle_ns) {
  descriptors_.resize(1);
  bool all_wake = true;
  for (const auto& peer : active_) {
    all_wake = all_wake && !peer->posting_is_blocked();
    for (const auto& link : peer->links()) {
      const int descriptor = link->rail().wait_descriptor();
      if (descriptor < 0) {
        all_wake = false;
      } else if (std::none_of(descriptors_.begin(), descriptors_.end(),
                              [&](const pollfd& known) { return known.fd == descriptor; })) {
        descriptors_.push_back({descriptor, POLLIN, 0});
      }
    }
  }
  return sleep(all_wake ? kDozeNs : std::clamp(idle_ns / kNapsPerWait, kShortNapNs, kLongNapNs));
}

bool Worker::sleep(std::int64_t timeout_ns) {
  {
    const std::lock_guard lock(mutex_);
    if (!commands_.empty() || stopping_) return false;
    resting_ = true;
  }
  descriptors_.front() = {wake_.get(), POLLIN, 0};
  const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  ::ppoll(descriptors_.data(), descriptors_.size(), timeout_ns < 0 ? nullptr : &timeout, nullptr);
  if ((descriptors_.front().revents & POLLIN) != 0) wake_.clear();
  const std::lock_guard lock(mutex_);
  resting_ = false;
  wakeups_.store(wakeups_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return std::any_of(descriptors_.begin() + 1, descriptors_.end(),
                     [](const pollfd& rail) { return (rail.revents & POLLIN) != 0; });
}

}  // namespace kvrail

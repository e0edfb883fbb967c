#include "support/background.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace mock_engine {

Background::Background() : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  thread_ = std::thread([this] { work(); });
}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
  close(wake_);
}

void Background::post(std::function<void()> job, std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(std::move(job), std::move(then));
  }
  posted_.notify_one();
}

void Background::run_finished() {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t got = read(wake_, &rings, sizeof rings);
  std::vector<std::function<void()>> finished;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(finished_);
    if (failure_) std::rethrow_exception(failure_);
  }
  for (const auto& then : finished) then();
}

void Background::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    posted_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    Work next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      next.first();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    finished_.push_back(std::move(next.second));
    const std::uint64_t ring = 1;
    [[maybe_unused]] const ssize_t put = write(wake_, &ring, sizeof ring);
  }
}

}  // namespace mock_engine

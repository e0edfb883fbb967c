#include "support/pass_runner.h"

#include <utility>

#include "support/clock.h"

namespace mock_engine {

PassRunner::PassRunner(Ranks& ranks, std::uint32_t layers,
                       std::shared_ptr<kvrail::LayerCounter> counter,
                       std::chrono::nanoseconds time_per_layer, Done done)
    : ranks_(ranks),
      layers_(layers),
      counter_(std::move(counter)),
      time_per_layer_(time_per_layer),
      done_(std::move(done)) {
  thread_ = std::thread([this] { work(); });
}

PassRunner::~PassRunner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

void PassRunner::push(Pass pass) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(pass));
  }
  pushed_.notify_one();
}

void PassRunner::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    pushed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Pass pass = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    done_(pass, run(pass));
    lock.lock();
  }
}

PassTimes PassRunner::run(const Pass& pass) {
  PassTimes times;
  times.start_ns = now_ns();
  counter_->start(pass.step);
  try {
    ranks_.begin_pass(pass.chunks);
    for (std::uint32_t layer = 0; layer < layers_; ++layer) {
      const auto layer_end = std::chrono::steady_clock::now() + time_per_layer_;
      ranks_.run_layer();
      std::this_thread::sleep_until(layer_end);
      times.signal_ns.push_back(now_ns());
      counter_->signal();
    }
  } catch (const RankLost& lost) {
    times.failure = lost.what();
  }
  times.end_ns = now_ns();
  return times;
}

}  // namespace mock_engine

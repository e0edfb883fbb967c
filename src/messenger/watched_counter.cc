#include "messenger/watched_counter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace kvrail {

void deliver(std::vector<StepCall>& calls) {
  for (const StepCall& call : calls) {
    switch (call.kind) {
      case StepCall::Kind::kLayer:
        call.listener->on_layer(call.step, call.layer, call.seen_ns);
        break;
      case StepCall::Kind::kFinished:
        call.listener->on_step_finished(call.step);
        break;
      case StepCall::Kind::kFailed:
        call.listener->on_step_failed(call.step, call.reason);
        break;
      case StepCall::Kind::kDiscarded:
        call.listener->on_step_discarded(call.step);
        break;
    }
  }
  calls.clear();
}

bool WatchedCounter::has_room() const {
  return steps_.empty() ||
         last_announced_.value() - steps_.front().id.value() < LayerCounter::kHistory;
}

StepId WatchedCounter::announce(std::shared_ptr<const SignalMap> map,
                                std::shared_ptr<StepListener> listener) {
  last_announced_ = StepId(last_announced_.value() + 1);
  steps_.push_back({last_announced_, std::move(map), std::move(listener), 0});
  return last_announced_;
}

void WatchedCounter::discard(StepId id, std::vector<StepCall>& calls) {
  const auto step = std::find_if(steps_.begin(), steps_.end(),
                                 [id](const Step& other) { return other.id == id; });
  if (step == steps_.end() || step->listener == nullptr) return;
  const LayerCount now = counter_->read();
  if (now.step < id || (now.step == id && now.signals == 0)) {
    calls.push_back({StepCall::Kind::kDiscarded, std::move(step->listener), id, {}, 0, {}});
    steps_.erase(step);
  } else if (step->waits()) {
    end_failed(*step, fmt::format("step {} was discarded after its pass had begun", id.value()),
               calls);
  }
}

void WatchedCounter::fail(StepId id, const Status& reason, std::vector<StepCall>& calls) {
  for (Step& step : steps_) {
    if (step.id == id && step.listener != nullptr) end_failed(step, reason.text(), calls);
  }
}

bool WatchedCounter::waits() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.waits(); });
}

WatchedCounter::News WatchedCounter::look(std::int64_t now_ns, std::vector<StepCall>& calls) {
  const LayerCount count = counter_->read();
  News news;
  if (count == seen_) return news;
  news.any = true;
  while (!steps_.empty() && steps_.front().id < count.step) {
    settle(steps_.front(), now_ns, calls);
    steps_.pop_front();
  }
  if (!steps_.empty() && steps_.front().id == count.step) {
    Step& step = steps_.front();
    if (step.listener != nullptr && count.signals > step.map->size()) {
      end_failed(
          step,
          fmt::format("step {} had more layer signals than the {} that it was announced with",
                      step.id.value(), step.map->size()),
          calls);
    } else if (step.listener != nullptr) {
      hand_on(step, count.signals, now_ns, calls);
    }
  } else {
    const std::uint32_t known = count.step == seen_.step ? seen_.signals : 0;
    news.stray_signals = count.signals - known;
    news.stray_step = count.step;
  }
  seen_ = count;
  return news;
}

void WatchedCounter::settle(Step& step, std::int64_t now_ns, std::vector<StepCall>& calls) {
  if (step.listener == nullptr) return;
  const LayerCount last = counter_->history(step.id);
  if (last.step != step.id) {
    end_failed(step,
               fmt::format("step {} never began, although a later one did; discard_step says so",
                           step.id.value()),
               calls);
  } else if (last.signals != step.map->size()) {
    end_failed(step,
               fmt::format("step {} ended with {} layer signals instead of {}", step.id.value(),
                           last.signals, step.map->size()),
               calls);
  } else {
    hand_on(step, last.signals, now_ns, calls);
    calls.push_back({StepCall::Kind::kFinished, std::move(step.listener), step.id, {}, now_ns, {}});
  }
}

void WatchedCounter::hand_on(Step& step, std::size_t signals, std::int64_t now_ns,
                             std::vector<StepCall>& calls) {
  for (; step.handed_on < signals; ++step.handed_on) {
    for (const LayerIndex layer : (*step.map)[step.handed_on]) {
      calls.push_back({StepCall::Kind::kLayer, step.listener, step.id, layer, now_ns, {}});
    }
  }
}

void WatchedCounter::end_failed(Step& step, std::string reason, std::vector<StepCall>& calls) {
  ++steps_failed_;
  calls.push_back({StepCall::Kind::kFailed,
                   std::exchange(step.listener, nullptr),
                   step.id,
                   {},
                   0,
                   Status(ErrorCode::kStepFailed, std::move(reason))});
}

}  // namespace kvrail

#include "perf/kvrail_echo.h"

#include <utility>

#include "kvrail/error.h"

namespace kvrail::perf {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

KvrailEcho::KvrailEcho(TransferEngine& engine, PeerId peer, WriteList message, std::uint32_t count)
    : engine_(engine), peer_(peer), message_(std::move(message)) {
  counters_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    counters_.push_back(engine_.take_counter(peer_, kPerfGroup));
  }
}

Json KvrailEcho::counter_ids() const {
  Json list = Json::array();
  for (const CounterId counter : counters_) list.push_back(counter.value());
  return {{"counters", std::move(list)}};
}

void KvrailEcho::set_remote_counters(const Json& armed) {
  for (const Json& id : armed.at("counters")) {
    remote_counters_.emplace_back(id.get<CounterId::rep>());
  }
  if (remote_counters_.size() != counters_.size()) {
    throw Error(ErrorCode::kMalformed, "counters are missing");
  }
}

void KvrailEcho::write(std::uint32_t message) {
  WriteList list = message_;
  list.counter = remote_counters_[message];
  sent_ = Clock::now();
  const Status status =
      engine_.submit(peer_, std::move(list), FullQueue::kRefuse,
                     [self = shared_from_this()](const Status& status, const WriteReport&) {
                       if (!status.ok()) self->outcome_.set(status);
                     });
  if (!status.ok()) outcome_.set(status);
}

Json KvrailEcho::arm_ping() {
  for (std::uint32_t i = 0; i < counters_.size(); ++i) {
    engine_.expect(
        peer_, kPerfGroup, counters_[i], message_.runs.front().units,
        [self = shared_from_this(), i](const Status& status, const CounterReport&) {
          if (!status.ok()) return self->outcome_.set(status);
          const Clock::duration time = Clock::now() - self->sent_;
          self->times_us_.push_back(std::chrono::duration<double, std::micro>(time).count());
          if (i + 1 == self->counters_.size()) return self->outcome_.set({});
          self->write(i + 1);
        });
  }
  return counter_ids();
}

Json KvrailEcho::arm_pong(const Json& armed_ping) {
  set_remote_counters(armed_ping);
  for (std::uint32_t i = 0; i < counters_.size(); ++i) {
    engine_.expect(peer_, kPerfGroup, counters_[i], message_.runs.front().units,
                   [self = shared_from_this(), i](const Status& status, const CounterReport&) {
                     if (!status.ok()) return self->outcome_.set(status);
                     self->write(i);
                     if (i + 1 == self->counters_.size()) self->outcome_.set({});
                   });
  }
  return counter_ids();
}

std::vector<double> KvrailEcho::ping(const Json& armed_pong) {
  set_remote_counters(armed_pong);
  times_us_.reserve(counters_.size());
  write(0);
  wait_and_release("the answer to a message");
  return std::move(times_us_);
}

void KvrailEcho::pong() { wait_and_release("a message"); }

void KvrailEcho::wait_and_release(const char* what) {
  auto outcome = outcome_.future();
  wait_for(outcome, what);
  for (const CounterId counter : counters_) engine_.release_counter(peer_, kPerfGroup, counter);
}

}  // namespace kvrail::perf

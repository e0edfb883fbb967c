#include "wire/control_loop.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <asio/dispatch.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "wire/connect_attempt.h"
#include "wire/listener.h"
#include "wire/loop_core.h"
#include "wire/network.h"

namespace kvrail {
namespace {

// One-shot timer; shared between the Timer that the user holds and the operation in flight.
class LoopTimer final : public LoopMember, public std::enable_shared_from_this<LoopTimer> {
 public:
  LoopTimer(std::shared_ptr<LoopCore> core, std::function<void()> work)
      : core_(std::move(core)), timer_(core_->io()), work_(std::move(work)) {}

  void start(std::uint32_t delay_ms) {
    core_->add(*this);
    timer_.expires_after(std::chrono::milliseconds(delay_ms));
    timer_.async_wait([self = shared_from_this()](const asio::error_code&) {
      if (!self->work_) return;
      const auto work = self->end();
      self->core_->call("a timer", work);
    });
  }
  void shut_down() override { const auto dropped = end(); }

 private:
  std::function<void()> end() {
    if (!work_) return {};
    core_->remove(*this);
    timer_.cancel();
    return std::exchange(work_, {});
  }

  const std::shared_ptr<LoopCore> core_;
  asio::steady_timer timer_;
  std::function<void()> work_;
};

class TimerHandle final : public ControlLoop::Timer {
 public:
  explicit TimerHandle(std::shared_ptr<LoopTimer> timer) : timer_(std::move(timer)) {}
  ~TimerHandle() override { timer_->shut_down(); }

 private:
  std::shared_ptr<LoopTimer> timer_;
};

}  // namespace

ControlLoop::ControlLoop(ControlLimits limits, ReportHandler on_report) {
  try {
    core_ = std::make_shared<LoopCore>(limits, std::move(on_report));
  } catch (const std::system_error& e) {
    throw Error(ErrorCode::kLimit,
                fmt::format("cannot start the control loop: {}; {} and of threads (ulimit -u)",
                            e.what(), kExhaustionRemedy));
  }
}

ControlLoop::~ControlLoop() { core_->stop(); }

void ControlLoop::post(std::function<void()> work) {
  asio::post(core_->io(),
             [core = core_.get(), work = std::move(work)] { core->call("post", work); });
}

bool ControlLoop::on_loop_thread() const { return core_->on_thread(); }

std::string ControlLoop::listen(const std::string& host_port, AcceptHandler on_accept,
                                DropHandler on_drop) {
  const HostPort where = parse_host_port(host_port);
  std::vector<asio::ip::tcp::endpoint> endpoints;
  try {
    endpoints = resolve(where);
  } catch (const Error& e) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot listen on " + host_port + ": " + std::string(e.what()));
  }
  auto listener = std::make_shared<Listener>(core_, endpoints.front(), std::move(on_accept),
                                             std::move(on_drop));
  std::string address = listener->address();
  asio::dispatch(core_->io(), [core = core_.get(), listener = std::move(listener)] {
    core->listeners().push_back(listener);
    listener->start();
  });
  return address;
}

void ControlLoop::stop_listening() {
  assert(on_loop_thread());
  const auto listeners = std::exchange(core_->listeners(), {});
  for (const auto& listener : listeners) listener->shut_down();
}

bool ControlLoop::is_loopback(const std::string& host) {
  if (host.empty()) return false;
  std::vector<asio::ip::tcp::endpoint> endpoints;
  try {
    endpoints = resolve({.host = host, .port = 0});
  } catch (const Error&) {
    return false;
  }
  return std::all_of(endpoints.begin(), endpoints.end(), [](const auto& endpoint) {
    const asio::ip::address address = endpoint.address();
    if (address.is_v4() || !address.to_v6().is_v4_mapped()) return address.is_loopback();
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  });
}

void ControlLoop::connect(const std::string& host_port, std::uint32_t timeout_ms,
                          ConnectHandler done) {
  assert(on_loop_thread());
  HostPort target;
  try {
    target = parse_host_port(host_port);
  } catch (const Error& e) {
    return post(
        [status = Status(e.code(), e.what()), done = std::move(done)] { done(status, nullptr); });
  }
  std::make_shared<ConnectAttempt>(core_, std::move(target), std::move(done))->start(timeout_ms);
}

std::unique_ptr<ControlLoop::Timer> ControlLoop::after(std::uint32_t delay_ms,
                                                       std::function<void()> work) {
  assert(on_loop_thread());
  auto timer = std::make_shared<LoopTimer>(core_, std::move(work));
  timer->start(delay_ms);
  return std::make_unique<TimerHandle>(std::move(timer));
}

}  // namespace kvrail

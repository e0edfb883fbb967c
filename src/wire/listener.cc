#include "wire/listener.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "wire/network.h"
#include "wire/tcp_stream.h"

namespace kvrail {
namespace {

using asio::ip::tcp;

// Between attempts to accept while the process is out of descriptors.
constexpr std::chrono::milliseconds kRetryDelay{100};
// While more come than are accepted, several are at a time: each on its own would wake the thread,
// and take a core from whoever polls there, for every single one.
constexpr std::chrono::nanoseconds kBatchDelay = std::chrono::milliseconds(50);

[[noreturn]] void fail(const tcp::endpoint& endpoint, const asio::error_code& error) {
  const std::string where = to_text(endpoint);
  if (error == asio::error::address_in_use) {
    throw Error(ErrorCode::kAddressInUse,
                fmt::format("cannot listen on {}: another process or engine listens there; choose "
                            "another port, or port 0 for any free one",
                            where));
  }
  if (error.value() == EADDRNOTAVAIL) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot listen on {}: this host has no such address; choose one of its "
                            "own, or 0.0.0.0 or [::] for all",
                            where));
  }
  if (error == asio::error::access_denied) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot listen on {}: {}; choose a port of 1024 or above", where,
                            error.message()));
  }
  if (error == asio::error::address_family_not_supported) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("cannot listen on {}: this host does not speak that kind of address", where));
  }
  throw Error(ErrorCode::kLimit, fmt::format("cannot listen on {}: {}; {}", where, error.message(),
                                             kExhaustionRemedy));
}

}  // namespace

Listener::Listener(std::shared_ptr<LoopCore> core, const tcp::endpoint& endpoint,
                   ControlLoop::AcceptHandler on_accept)
    : core_(std::move(core)),
      acceptor_(core_->io()),
      timer_(core_->io()),
      accepts_(core_->limits().max_accepts_per_second, core_->limits().max_accepts_per_second / 2),
      on_accept_(std::move(on_accept)) {
  asio::error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (error) fail(endpoint, error);
  close_on_exec(acceptor_.native_handle());
  // On Linux this takes ports in TIME_WAIT and still refuses those that somebody listens on.
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error) fail(endpoint, error);
  address_ = to_text(acceptor_.local_endpoint());
}

void Listener::start() {
  if (stopped_ || core_->stopping()) return;
  core_->add(*this);
  accept();
}

void Listener::accept() {
  // Refusing instead would cost as much as accepting, and would hit those that we wait for.
  const std::int64_t wait_ns = accepts_.take(now_ns());
  if (wait_ns > 0) return accept_after(std::max(std::chrono::nanoseconds(wait_ns), kBatchDelay));
  acceptor_.async_accept(
      [self = shared_from_this()](const asio::error_code& error, tcp::socket socket) {
        self->on_accepted(error, std::move(socket));
      });
}

void Listener::on_accepted(const asio::error_code& error, tcp::socket socket) {
  if (stopped_) return;
  if (error == asio::error::connection_aborted) return accept();
  if (error) return retry_later(error);
  in_trouble_ = false;
  core_->call("on_accept",
              [&] { on_accept_(std::make_shared<TcpStream>(core_, std::move(socket))); });
  if (!stopped_) accept();
}

void Listener::retry_later(const asio::error_code& error) {
  if (!std::exchange(in_trouble_, true)) {
    core_->report({ErrorCode::kLimit,
                   fmt::format("connections to {} wait, since none can be accepted: {}; {}",
                               address_, error.message(), kExhaustionRemedy)});
  }
  accept_after(kRetryDelay);
}

void Listener::accept_after(std::chrono::nanoseconds delay) {
  timer_.expires_after(delay);
  timer_.async_wait([self = shared_from_this()](const asio::error_code&) {
    if (!self->stopped_) self->accept();
  });
}

void Listener::shut_down() {
  if (std::exchange(stopped_, true)) return;
  core_->remove(*this);
  asio::error_code ignored;
  acceptor_.close(ignored);
  timer_.cancel();
}

}  // namespace kvrail

#include "wire/listener.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "wire/network.h"
#include "wire/tcp_stream.h"

namespace kvrail {
namespace {

using asio::ip::tcp;

// While more come than are handed over, several are at a time: each on its own would wake the
// thread, and take a core from whoever polls there, for every single one. It is also the time
// between attempts to accept while the process is out of descriptors.
constexpr std::chrono::milliseconds kBatchDelay{50};
// A flood costs no more than this, and what comes beyond it waits in the system's queue.
constexpr std::size_t kMaxPerBatch = 128;

// Each that waits takes a descriptor. Who would wait for much longer has given up by its turn.
std::size_t max_waiting(std::uint32_t accepts_per_second) {
  constexpr std::size_t kLeast = 256;
  constexpr std::size_t kSeconds = 4;
  return std::max(kLeast, kSeconds * accepts_per_second);
}

// Closed or reset by the other side, though there may be bytes to read.
bool has_ended(short revents) { return (revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0; }

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
                   ControlLoop::AcceptHandler on_accept, ControlLoop::DropHandler on_drop)
    : core_(std::move(core)),
      acceptor_(core_->io()),
      timer_(core_->io()),
      accepts_(core_->limits().max_accepts_per_second,
               TokenBucket::burst_of(core_->limits().max_accepts_per_second)),
      waiting_(max_waiting(core_->limits().max_accepts_per_second)),
      on_accept_(std::move(on_accept)),
      on_drop_(std::move(on_drop)) {
  asio::error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (error) fail(endpoint, error);
  close_on_exec(acceptor_.native_handle());
  // On Linux this takes ports in TIME_WAIT and still refuses those that somebody listens on.
  acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (!error) acceptor_.non_blocking(true, error);
  if (error) fail(endpoint, error);
  address_ = to_text(acceptor_.local_endpoint());
}

void Listener::start() {
  if (stopped_ || core_->stopping()) return;
  core_->add(*this);
  accept();
}

void Listener::accept() {
  acceptor_.async_accept(
      [self = shared_from_this()](const asio::error_code& error, tcp::socket socket) {
        self->on_accepted(error, std::move(socket));
      });
}

void Listener::on_accepted(const asio::error_code& error, tcp::socket socket) {
  if (stopped_) return;
  if (error == asio::error::connection_aborted) return accept();
  if (error) {
    report_trouble(error);
    return serve_later();
  }
  in_trouble_ = false;
  if (accepts_.take(now_ns()) > 0) {
    line_up(std::move(socket));
    return serve_later();
  }
  hand_over(std::move(socket));
  if (!stopped_) accept();
}

void Listener::hand_over(tcp::socket socket) {
  core_->call("on_accept",
              [&] { on_accept_(std::make_shared<TcpStream>(core_, std::move(socket))); });
}

void Listener::report_trouble(const asio::error_code& error) {
  if (std::exchange(in_trouble_, true)) return;
  core_->report(
      {ErrorCode::kLimit, fmt::format("connections to {} wait, since none can be accepted: {}; {}",
                                      address_, error.message(), kExhaustionRemedy)});
}

void Listener::serve_later() {
  timer_.expires_after(kBatchDelay);
  timer_.async_wait([self = shared_from_this()](const asio::error_code&) {
    if (!self->stopped_) self->serve();
  });
}

void Listener::serve() {
  line_up_new_ones();
  if (!stopped_) drop_ended();
  while (!stopped_ && !waiting_.empty()) {
    if (accepts_.take(now_ns()) > 0) return serve_later();
    hand_over(waiting_.pop().socket);
  }
  if (!stopped_) accept();
}

void Listener::line_up_new_ones() {
  for (std::size_t i = 0; i < kMaxPerBatch && !stopped_; ++i) {
    asio::error_code error;
    tcp::socket socket = acceptor_.accept(error);
    if (error == asio::error::connection_aborted) continue;
    if (error == asio::error::would_block || error == asio::error::try_again) return;
    if (error) return report_trouble(error);
    in_trouble_ = false;
    line_up(std::move(socket));
  }
}

void Listener::line_up(tcp::socket socket) {
  close_on_exec(socket.native_handle());
  asio::error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  // It was reset already, and has no address any more.
  if (error) return drop(ControlLoop::Dropped::kHungUp, remote);
  const auto left_out = waiting_.push(source_of(remote.address()), {std::move(socket), remote});
  if (left_out) drop(ControlLoop::Dropped::kTooMany, left_out->remote);
}

void Listener::drop_ended() {
  std::vector<pollfd> states;
  states.reserve(waiting_.size());
  waiting_.for_each([&](Waiting& one) {
    states.push_back({one.socket.native_handle(), POLLRDHUP, 0});
  });
  if (::poll(states.data(), states.size(), 0) <= 0) return;
  std::vector<tcp::endpoint> ended;
  std::size_t index = 0;
  waiting_.remove_if([&](const Waiting& one) {
    if (!has_ended(states[index++].revents)) return false;
    ended.push_back(one.remote);
    return true;
  });
  for (const tcp::endpoint& remote : ended) drop(ControlLoop::Dropped::kHungUp, remote);
}

void Listener::drop(ControlLoop::Dropped why, const tcp::endpoint& remote) {
  if (on_drop_) core_->call("on_drop", [&] { on_drop_(why, to_text(remote)); });
}

void Listener::shut_down() {
  if (std::exchange(stopped_, true)) return;
  core_->remove(*this);
  asio::error_code ignored;
  acceptor_.close(ignored);
  timer_.cancel();
  waiting_.clear();
}

}  // namespace kvrail

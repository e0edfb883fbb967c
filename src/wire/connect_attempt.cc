#include "wire/connect_attempt.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <asio/connect.hpp>

#include "wire/network.h"
#include "wire/tcp_stream.h"

namespace kvrail {
namespace {

using asio::ip::tcp;

std::string quote(const HostPort& target) {
  const bool brackets = target.host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", target.host, target.port)
                  : fmt::format("{}:{}", target.host, target.port);
}

// A port of the ephemeral range that nobody listens on may be given to our own end: TCP then
// connects the socket with itself.
bool is_connected_with_itself(const tcp::socket& socket) {
  asio::error_code error;
  const auto local = socket.local_endpoint(error);
  return !error && local == socket.remote_endpoint(error) && !error;
}

}  // namespace

ConnectAttempt::ConnectAttempt(std::shared_ptr<LoopCore> core, HostPort target,
                               ControlLoop::ConnectHandler done)
    : core_(std::move(core)),
      target_(std::move(target)),
      target_text_(quote(target_)),
      done_(std::move(done)),
      resolver_(core_->io()),
      socket_(core_->io()),
      timer_(core_->io()) {}

void ConnectAttempt::start(std::uint32_t timeout_ms) {
  core_->add(*this);
  timer_.expires_after(std::chrono::milliseconds(timeout_ms));
  timer_.async_wait([self = shared_from_this(), timeout_ms](const asio::error_code& error) {
    if (error) return;
    self->finish({ErrorCode::kDeadline,
                  fmt::format("{} did not answer within {} ms", self->target_text_, timeout_ms)});
  });
  const auto literal = literal_endpoints(target_);
  literal.empty() ? look_up() : connect(literal);
}

void ConnectAttempt::look_up() {
  resolver_.async_resolve(
      target_.host, std::to_string(target_.port), tcp::resolver::numeric_service,
      [self = shared_from_this()](const asio::error_code& error,
                                  const tcp::resolver::results_type& results) {
        if (self->finished_) return;
        if (error) {
          self->finish({ErrorCode::kNotFound, unresolved_text(self->target_.host, error)});
        } else {
          self->connect({results.begin(), results.end()});
        }
      });
}

void ConnectAttempt::connect(const std::vector<tcp::endpoint>& endpoints) {
  asio::async_connect(
      socket_, endpoints,
      [self = shared_from_this()](const asio::error_code& error, const tcp::endpoint&) {
        if (!self->finished_) self->on_connected(error);
      });
}

void ConnectAttempt::on_connected(const asio::error_code& error) {
  if (error == asio::error::connection_refused || (!error && is_connected_with_itself(socket_))) {
    finish({ErrorCode::kNotFound,
            fmt::format("nobody listens on {}; is the peer running?", target_text_)});
  } else if (error) {
    const bool exhausted = is_exhaustion(error);
    finish({exhausted ? ErrorCode::kLimit : ErrorCode::kPeerLost,
            fmt::format("cannot connect to {}: {}{}{}", target_text_, error.message(),
                        exhausted ? "; " : "", exhausted ? kExhaustionRemedy : "")});
  } else {
    finish({}, std::make_shared<TcpStream>(core_, std::move(socket_)));
  }
}

void ConnectAttempt::finish(Status status, std::shared_ptr<ControlStream> stream) {
  if (finished_) return;
  const auto done = std::move(done_);
  cancel();
  core_->call("connect", [&] { done(status, std::move(stream)); });
}

void ConnectAttempt::shut_down() {
  const auto dropped = std::move(done_);
  cancel();
}

void ConnectAttempt::cancel() {
  finished_ = true;
  core_->remove(*this);
  resolver_.cancel();
  timer_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
}

}  // namespace kvrail

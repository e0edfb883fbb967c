#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "wire/loop_core.h"
#include "wire/token_bucket.h"

namespace kvrail {

// One listening socket. Threads: construct on any; the rest on the loop's thread.
class Listener final : public LoopMember, public std::enable_shared_from_this<Listener> {
 public:
  // Binds and listens. Throws Error: kAddressInUse, kInvalidArgument, kLimit.
  Listener(std::shared_ptr<LoopCore> core, const asio::ip::tcp::endpoint& endpoint,
           ControlLoop::AcceptHandler on_accept);

  // HOST:PORT as bound.
  std::string address() const { return address_; }
  void start();
  void shut_down() override;

 private:
  void accept();
  void on_accepted(const asio::error_code& error, asio::ip::tcp::socket socket);
  void retry_later(const asio::error_code& error);
  void accept_after(std::chrono::nanoseconds delay);

  const std::shared_ptr<LoopCore> core_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer timer_;  // while nothing is being accepted
  TokenBucket accepts_;
  ControlLoop::AcceptHandler on_accept_;
  std::string address_;
  bool stopped_ = false;
  bool in_trouble_ = false;  // reported, and nothing accepted since
};

}  // namespace kvrail

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "wire/fair_queue.h"
#include "wire/loop_core.h"
#include "wire/network.h"
#include "wire/token_bucket.h"

namespace kvrail {

// One listening socket. Connections beyond max_accepts_per_second wait here, and not in the
// system's queue: that one is served in order, so whoever fills it keeps out all others.
//
//   one at a time --no token is left--> in batches --nobody waits any more--> one at a time
//
// Threads: construct on any; the rest on the loop's thread.
class Listener final : public LoopMember, public std::enable_shared_from_this<Listener> {
 public:
  // Binds and listens. Throws Error: kAddressInUse, kInvalidArgument, kLimit.
  Listener(std::shared_ptr<LoopCore> core, const asio::ip::tcp::endpoint& endpoint,
           ControlLoop::AcceptHandler on_accept, ControlLoop::DropHandler on_drop);

  // HOST:PORT as bound.
  std::string address() const { return address_; }
  void start();
  void shut_down() override;

 private:
  struct Waiting {
    asio::ip::tcp::socket socket;
    asio::ip::tcp::endpoint remote;
  };

  void accept();
  void on_accepted(const asio::error_code& error, asio::ip::tcp::socket socket);
  void hand_over(asio::ip::tcp::socket socket);
  void report_trouble(const asio::error_code& error);

  void serve_later();
  // One batch: takes new ones into the line, those that have ended out of it, and hands over as
  // many as there are tokens for.
  void serve();
  void line_up_new_ones();
  void line_up(asio::ip::tcp::socket socket);
  void drop_ended();
  void drop(ControlLoop::Dropped why, const asio::ip::tcp::endpoint& remote);

  const std::shared_ptr<LoopCore> core_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer timer_;  // of the next batch
  TokenBucket accepts_;
  FairQueue<SourceAddress, Waiting> waiting_;
  ControlLoop::AcceptHandler on_accept_;
  ControlLoop::DropHandler on_drop_;
  std::string address_;
  bool stopped_ = false;
  bool in_trouble_ = false;  // reported, and nothing accepted since
};

}  // namespace kvrail

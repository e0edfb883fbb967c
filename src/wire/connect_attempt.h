#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "wire/loop_core.h"

namespace kvrail {

// One attempt to reach a HOST:PORT: look-up, then its addresses in turn, all within one timeout.
// Threads: the loop's.
class ConnectAttempt final : public LoopMember,
                             public std::enable_shared_from_this<ConnectAttempt> {
 public:
  ConnectAttempt(std::shared_ptr<LoopCore> core, HostPort target, ControlLoop::ConnectHandler done);

  void start(std::uint32_t timeout_ms);
  void shut_down() override;

 private:
  void look_up();
  void connect(const std::vector<asio::ip::tcp::endpoint>& endpoints);
  void on_connected(const asio::error_code& error);
  void finish(Status status, std::shared_ptr<ControlStream> stream = nullptr);
  void cancel();

  const std::shared_ptr<LoopCore> core_;
  const HostPort target_;
  const std::string target_text_;
  ControlLoop::ConnectHandler done_;
  bool finished_ = false;
  asio::ip::tcp::resolver resolver_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
};

}  // namespace kvrail

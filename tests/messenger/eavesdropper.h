#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "wire/loop_support.h"

namespace kvrail {

// Forwards the bytes between two nodes, and keeps them.
class Eavesdropper {
 public:
  explicit Eavesdropper(std::string target) : target_(std::move(target)) {}
  ~Eavesdropper() { end(); }
  Eavesdropper(const Eavesdropper&) = delete;
  Eavesdropper& operator=(const Eavesdropper&) = delete;

  std::string listen() {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&here), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 4), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &size);
    thread_ = std::thread([this] { forward(); });
    return "127.0.0.1:" + std::to_string(ntohs(here.sin_port));
  }

  // Ends the stream on both sides, as somebody who resets TCP connections does. Once it is open.
  void cut() {
    // The other side's is closed by the thread, which ends.
    ::shutdown(initiator_.load(), SHUT_RDWR);
  }
  // Waits for the end of the stream.
  void end() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }

  // After end().
  std::vector<std::byte> to_acceptor;
  std::vector<std::byte> to_initiator;

 private:
  void forward() {
    const UniqueFd initiator(::accept(listener_.get(), nullptr, nullptr));
    if (!initiator) return;
    const RawClient acceptor(target_);
    initiator_ = initiator.get();
    std::array<pollfd, 2> ends = {pollfd{initiator.get(), POLLIN, 0},
                                  pollfd{acceptor.fd(), POLLIN, 0}};
    while (pass(ends[0], ends[1], to_acceptor) && pass(ends[1], ends[0], to_initiator)) {
      if (::poll(ends.data(), ends.size(), 1000) < 0) return;
    }
  }
  static bool pass(const pollfd& from, const pollfd& to, std::vector<std::byte>& heard) {
    if ((from.revents & (POLLIN | POLLHUP | POLLERR)) == 0) return true;
    std::array<std::byte, 4096> bytes;
    const auto count = ::recv(from.fd, bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    heard.insert(heard.end(), bytes.begin(), bytes.begin() + count);
    return ::send(to.fd, bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) == count;
  }

  const std::string target_;
  std::atomic<int> initiator_{-1};
  UniqueFd listener_;
  std::thread thread_;
};

}  // namespace kvrail

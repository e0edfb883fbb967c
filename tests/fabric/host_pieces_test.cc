#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/byte_codec.h"
#include "base/unique_fd.h"
#include "fabric/bind_address.h"
#include "fabric/signal_guard.h"
#include "fabric/socket_cut.h"
#include "kvrail/error.h"

namespace kvrail {
namespace {

TEST(BindAddress, TakesAddressesOfThisHost) {
  check_bind_address("127.0.0.1");
  check_bind_address("0.0.0.0");
  // Whatever is no address is for the provider to refuse.
  check_bind_address("not-an-address");
  check_bind_address("");
}

TEST(BindAddress, RefusesAddressesOfOthers) {
  for (const std::string address : {"203.0.113.77", "2001:db8::77"}) {
    try {
      check_bind_address(address);
      // A host without IPv6 says so at the first link.
      EXPECT_NE(address.find(':'), std::string::npos) << address << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
      EXPECT_NE(std::string(error.what()).find("bind_address"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(address), std::string::npos) << error.what();
    }
  }
}

void handle(int) {}
void handle_otherwise(int) {}

struct sigaction handler_of(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action;
}

TEST(SignalGuard, GivesHandlersBack) {
  struct sigaction ours {};
  ours.sa_handler = handle;
  const struct sigaction before = handler_of(SIGTERM);
  ::sigaction(SIGTERM, &ours, nullptr);
  {
    const SignalGuard guard;
    struct sigaction theirs {};
    theirs.sa_handler = handle_otherwise;
    theirs.sa_flags = SA_RESETHAND;
    ::sigaction(SIGTERM, &theirs, nullptr);
    ::sigaction(SIGINT, &theirs, nullptr);
  }
  EXPECT_EQ(handler_of(SIGTERM).sa_handler, handle);
  EXPECT_EQ(handler_of(SIGTERM).sa_flags & SA_RESETHAND, 0);
  EXPECT_NE(handler_of(SIGINT).sa_handler, handle_otherwise);
  ::sigaction(SIGTERM, &before, nullptr);
}

TEST(SignalGuard, LeavesOthersAlone) {
  struct sigaction before = handler_of(SIGUSR1);
  {
    const SignalGuard guard;
    struct sigaction ours {};
    ours.sa_handler = handle;
    ::sigaction(SIGUSR1, &ours, nullptr);
  }
  EXPECT_EQ(handler_of(SIGUSR1).sa_handler, handle);
  ::sigaction(SIGUSR1, &before, nullptr);
}

// A listening socket on a port of its own.
struct Listener {
  UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};

  Listener() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(socket.get(), 8), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  }
  Bytes name() const {
    const auto* first = reinterpret_cast<const std::byte*>(&address);
    return {first, first + sizeof address};
  }
  UniqueFd connect() const {
    UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    return client;
  }
  UniqueFd accept() const {
    return UniqueFd(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
};

bool is_cut(const UniqueFd& socket) {
  pollfd fd{socket.get(), POLLIN, 0};
  char byte = 0;
  return ::poll(&fd, 1, 0) == 1 && ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

// The sockets are in one process here, so both ends are found.
TEST(SocketCut, CutsTheConnectionsOfOneLink) {
  const Listener ours;
  const Listener peer;
  const Listener other;
  const UniqueFd to_peer = peer.connect();
  const UniqueFd at_peer = peer.accept();
  const UniqueFd to_us = ours.connect();
  const UniqueFd at_us = ours.accept();
  const UniqueFd to_other = other.connect();
  const UniqueFd at_other = other.accept();
  const std::vector<Bytes> peers = {peer.name(), Bytes(3, std::byte{1})};
  cut_sockets(ours.name(), peers);
  EXPECT_TRUE(is_cut(to_peer));
  EXPECT_TRUE(is_cut(at_us));
  EXPECT_FALSE(is_cut(to_other));
  EXPECT_FALSE(is_cut(at_other));
  // The listeners live on.
  const UniqueFd again = other.connect();
  EXPECT_FALSE(is_cut(again));
}

TEST(SocketCut, EndsWhatComesToOneEndpointAndKnowsWhatIsOpen) {
  const Listener ours;
  const Listener other;
  const UniqueFd to_us = ours.connect();
  UniqueFd at_us = ours.accept();
  const UniqueFd to_other = other.connect();
  const UniqueFd at_other = other.accept();
  const SocketCut cut(ours.name());
  EXPECT_TRUE(is_cut(to_us));
  EXPECT_TRUE(is_cut(at_us));
  EXPECT_FALSE(is_cut(to_other));
  // Nobody comes in any more.
  EXPECT_LT(::accept4(ours.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK), 0);
  EXPECT_TRUE(cut.any_open());
  at_us.reset();
  EXPECT_FALSE(cut.any_open());
  // Another file under the same number is not the one that was cut.
  const UniqueFd next(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(cut.any_open());
  EXPECT_FALSE(SocketCut({}).any_open());
}

TEST(SocketCut, IgnoresWhatIsNoSocketAddress) {
  const Listener other;
  const UniqueFd client = other.connect();
  const UniqueFd server = other.accept();
  cut_sockets({}, {});
  const Bytes text(16, std::byte{'x'});
  cut_sockets(text, std::vector<Bytes>{text});
  EXPECT_FALSE(is_cut(client));
  EXPECT_FALSE(is_cut(server));
}

}  // namespace
}  // namespace kvrail

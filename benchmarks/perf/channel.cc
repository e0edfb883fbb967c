#include "perf/channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kvrail/error.h"

namespace kvrail::perf {
namespace {

using asio::ip::tcp;

// That the other side may have said before it said what is wrong.
constexpr int kLateWords = 4;
// Of a process that is ending: the kernel may cut its links before its streams.
constexpr std::chrono::milliseconds kLatePatience{500};

// "[::1]:4600" and "host:4600".
std::pair<std::string, std::string> split(const std::string& host_port) {
  const auto colon = host_port.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == host_port.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is no address: write HOST:PORT", host_port));
  }
  std::string host = host_port.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, host_port.substr(colon + 1)};
}

Error lost() { return {ErrorCode::kPeerLost, "the other process has ended"}; }

}  // namespace

Channel::Channel(std::unique_ptr<asio::io_context> context, Socket socket)
    : context_(std::move(context)), socket_(std::move(socket)) {}

std::unique_ptr<Channel> Channel::adopt(int descriptor) {
  auto context = std::make_unique<asio::io_context>();
  Socket socket(*context, asio::generic::stream_protocol(AF_UNIX, 0), descriptor);
  return std::make_unique<Channel>(std::move(context), std::move(socket));
}

std::unique_ptr<Channel> Channel::connect(const std::string& host_port) {
  const auto [host, port] = split(host_port);
  auto context = std::make_unique<asio::io_context>();
  tcp::socket socket(*context);
  asio::error_code error;
  const auto found = tcp::resolver(*context).resolve(host, port, error);
  if (!error) asio::connect(socket, found, error);
  if (error) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("cannot connect to {}: {}; start `kvrail-perf serve --listen` there",
                            host_port, error.message()));
  }
  socket.set_option(tcp::no_delay(true));
  return std::make_unique<Channel>(std::move(context), Socket(std::move(socket)));
}

void Channel::send(const Json& message) {
  const std::vector<std::uint8_t> body = Json::to_cbor(message);
  if (body.size() > kMaxMessageBytes) {
    throw Error(ErrorCode::kLimit, fmt::format("a message of {} bytes", body.size()));
  }
  std::array<std::uint8_t, 4> head{};
  for (std::size_t i = 0; i < head.size(); ++i) {
    head[i] = static_cast<std::uint8_t>(body.size() >> (8 * i));
  }
  asio::error_code error;
  asio::write(socket_, std::array<asio::const_buffer, 2>{asio::buffer(head), asio::buffer(body)},
              error);
  if (!error) return;
  throw_late_words();
  throw lost();
}

void Channel::send_error(const std::string& text) { send({{"error", text}}); }

Json Channel::receive(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::array<std::byte, 4> head{};
  read(head, deadline);
  std::size_t size = 0;
  for (std::size_t i = 0; i < head.size(); ++i) {
    size |= std::to_integer<std::size_t>(head[i]) << (8 * i);
  }
  if (size > kMaxMessageBytes) {
    throw Error(ErrorCode::kMalformed, fmt::format("a message of {} bytes is announced", size));
  }
  std::vector<std::byte> body(size);
  read(body, deadline);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(body.data());
  Json message = Json::from_cbor(bytes, bytes + size, true, false);
  if (!message.is_object()) throw Error(ErrorCode::kMalformed, "a message is no CBOR object");
  if (const auto error = message.find("error"); error != message.end()) {
    throw Error(ErrorCode::kPeerLost, fmt::format("the other side says: {}", error->dump()));
  }
  return message;
}

void Channel::read(std::span<std::byte> bytes, std::chrono::steady_clock::time_point deadline) {
  while (!bytes.empty()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd entry{socket_.native_handle(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) throw Error(ErrorCode::kDeadline, "the other process does not answer");
    const ssize_t got = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) throw lost();
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

bool Channel::readable(std::chrono::milliseconds patience) {
  pollfd entry{socket_.native_handle(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(patience.count())) > 0;
}

void Channel::throw_late_words() {
  for (int i = 0; i < kLateWords && readable(kLatePatience); ++i) receive();
}

void Channel::wait_readable() {
  pollfd entry{socket_.native_handle(), POLLIN, 0};
  while (::poll(&entry, 1, -1) < 0 && errno == EINTR) {
  }
}

struct ChannelListener::Acceptor {
  asio::io_context context;
  tcp::acceptor acceptor{context};
};

ChannelListener::ChannelListener(const std::string& host_port)
    : acceptor_(std::make_unique<Acceptor>()) {
  const auto [host, port] = split(host_port);
  tcp::acceptor& acceptor = acceptor_->acceptor;
  asio::error_code error;
  const auto found =
      tcp::resolver(acceptor_->context).resolve(host, port, tcp::resolver::passive, error);
  if (!error) {
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(1, error);
  }
  if (error) {
    throw Error(ErrorCode::kAddressInUse, fmt::format("cannot listen at {}: {}; choose another "
                                                      "address of this host with --listen",
                                                      host_port, error.message()));
  }
}

ChannelListener::~ChannelListener() = default;

std::string ChannelListener::address() const {
  const tcp::endpoint endpoint = acceptor_->acceptor.local_endpoint();
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", host, endpoint.port())
                                    : fmt::format("{}:{}", host, endpoint.port());
}

std::unique_ptr<Channel> ChannelListener::accept() {
  auto context = std::make_unique<asio::io_context>();
  tcp::socket socket = acceptor_->acceptor.accept(*context);
  socket.set_option(tcp::no_delay(true));
  return std::make_unique<Channel>(std::move(context), Channel::Socket(std::move(socket)));
}

Json to_json(std::span<const std::byte> bytes) {
  std::vector<std::uint8_t> copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return Json::binary(std::move(copy));
}

std::vector<std::byte> bytes_from_json(const Json& json) {
  if (!json.is_binary()) throw Error(ErrorCode::kMalformed, "a message lacks its bytes");
  const auto& binary = json.get_binary();
  std::vector<std::byte> bytes(binary.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), binary.data(), bytes.size());
  return bytes;
}

}  // namespace kvrail::perf

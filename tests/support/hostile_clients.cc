#include "support/hostile_clients.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "kvrail/pre_shared_key.h"
#include "wire/codec.h"
#include "wire/frame_reader.h"
#include "wire/host_port.h"
#include "wire/key_exchange.h"

namespace kvrail {
namespace {

constexpr std::int64_t kSlowMs = 25;  // between the bytes of a slow writer

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> frame_of(const Message& message) {
  std::vector<std::byte> frame(kFrameHeaderBytes);
  encode_to(message, frame);
  put_frame_length(frame.data(), static_cast<std::uint32_t>(frame.size() - kFrameHeaderBytes));
  return frame;
}

std::vector<std::byte> length_of(std::uint32_t length, std::size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  put_frame_length(bytes.data(), length);
  return bytes;
}

HelloMessage hello() {
  HelloMessage hello;
  hello.node_name = "stranger";
  hello.incarnation = 1;
  return hello;
}

std::vector<std::byte> hello_with_wrong_key() {
  const KeyExchange exchange(
      PreSharedKey::from_bytes(std::vector(PreSharedKey::kBytes, std::byte{0xee})));
  HelloMessage message = hello();
  message.auth = AuthScheme::kPreSharedKey;
  message.nonce = exchange.nonce();
  message.public_key = exchange.public_key();
  std::vector<std::byte> bytes = frame_of(message);
  const auto sealed = length_of(60, kFrameHeaderBytes + 60);
  bytes.insert(bytes.end(), sealed.begin(), sealed.end());
  return bytes;
}

}  // namespace

HostileClients::HostileClients(const std::string& address, std::size_t count)
    : port_(parse_host_port(address).port), clients_(count) {
  thread_ = std::thread([this] { run(); });
}

HostileClients::~HostileClients() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
}

std::uint64_t HostileClients::ended() const {
  std::uint64_t sum = 0;
  for (const auto& count : ended_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

std::vector<std::byte> HostileClients::words_of(HostileKind kind) {
  switch (kind) {
    case HostileKind::kGarbage: {
      auto bytes = length_of(100, 104);
      std::generate(bytes.begin() + kFrameHeaderBytes, bytes.end(),
                    [this] { return static_cast<std::byte>(random_()); });
      return bytes;
    }
    case HostileKind::kHttp:
      return bytes_of("GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n");
    case HostileKind::kTls: {
      auto bytes = bytes_of(std::string_view("\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03", 11));
      bytes.resize(245, std::byte{'r'});
      return bytes;
    }
    case HostileKind::kZeroLength:
      return length_of(0, 400);
    case HostileKind::kHugeLength:
      return length_of(16u << 20, 4000);
    case HostileKind::kSlowWriter:
      return frame_of(hello());
    case HostileKind::kSilent:
      return {};
    case HostileKind::kWithoutKey:
      return frame_of(hello());
    case HostileKind::kWrongKey:
      return hello_with_wrong_key();
  }
  return {};
}

void HostileClients::open(Client& client) {
  client.kind = static_cast<HostileKind>(opened_++ % kHostileKinds);
  client.unsent = words_of(client.kind);
  client.next_send_ns = 0;
  client.fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port_);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client.fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 &&
      errno != EINPROGRESS) {
    client.fd.reset();
  }
}

void HostileClients::send(Client& client) const {
  const std::size_t size = client.kind == HostileKind::kSlowWriter ? 1 : client.unsent.size();
  const auto sent = ::send(client.fd.get(), client.unsent.data(), size, MSG_NOSIGNAL);
  if (sent <= 0) return;
  client.unsent.erase(client.unsent.begin(), client.unsent.begin() + sent);
  client.next_send_ns = client.kind == HostileKind::kSlowWriter ? now_ns() + kSlowMs * kNsPerMs : 0;
}

bool HostileClients::is_ended(const Client& client) {
  std::array<std::byte, 4096> ignored;
  for (;;) {
    const auto count = ::recv(client.fd.get(), ignored.data(), ignored.size(), 0);
    if (count > 0) continue;
    return count == 0 || (errno != EAGAIN && errno != EINTR);
  }
}

void HostileClients::run() {
  std::vector<pollfd> descriptors(clients_.size());
  while (!stopping_.load(std::memory_order_relaxed)) {
    const std::int64_t now = now_ns();
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      Client& client = clients_[i];
      if (!client.fd) open(client);
      const bool sends = !client.unsent.empty() && client.next_send_ns <= now;
      descriptors[i] = {client.fd.get(), static_cast<short>(sends ? POLLIN | POLLOUT : POLLIN), 0};
    }
    ::poll(descriptors.data(), descriptors.size(), kSlowMs);
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      Client& client = clients_[i];
      if ((descriptors[i].revents & POLLOUT) != 0) send(client);
      if ((descriptors[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0 || !is_ended(client)) {
        continue;
      }
      ended_[static_cast<std::size_t>(client.kind)].fetch_add(1, std::memory_order_relaxed);
      client.fd.reset();
    }
  }
}

}  // namespace kvrail

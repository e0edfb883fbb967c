#include "support/process_channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace kvrail {
namespace {

bool send_all(int socket, const std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(socket, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t received = ::recv(socket, data, size, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    data += received;
    size -= static_cast<std::size_t>(received);
  }
  return true;
}

union FdControl {
  cmsghdr header;
  char space[CMSG_SPACE(sizeof(int))];
};

}  // namespace

bool ProcessChannel::send(std::span<const std::byte> bytes, int fd) {
  const std::lock_guard lock(send_mutex_);
  std::uint64_t size = bytes.size();
  iovec vector{&size, sizeof size};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  FdControl control{};
  if (fd >= 0) {
    header.msg_control = control.space;
    header.msg_controllen = sizeof control.space;
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(message), &fd, sizeof fd);
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  // A stream socket takes eight bytes whole or not at all.
  return sent == static_cast<ssize_t>(sizeof size) &&
         send_all(socket_.get(), bytes.data(), bytes.size());
}

std::optional<ProcessChannel::Message> ProcessChannel::receive() {
  std::uint64_t size = 0;
  iovec vector{&size, sizeof size};
  FdControl control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.space;
  header.msg_controllen = sizeof control.space;
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  } while (received < 0 && errno == EINTR);
  if (received != static_cast<ssize_t>(sizeof size)) return std::nullopt;

  Message message;
  if (const cmsghdr* part = CMSG_FIRSTHDR(&header);
      part != nullptr && part->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    message.fd = UniqueFd(fd);
  }
  message.bytes.resize(size);
  if (!receive_all(socket_.get(), message.bytes.data(), size)) return std::nullopt;
  return message;
}

void ProcessChannel::shut_down() { ::shutdown(socket_.get(), SHUT_RDWR); }

void say(ProcessChannel& channel, const std::string& text, int fd) {
  channel.send(std::as_bytes(std::span(text)), fd);
}

std::string hear(ProcessChannel& channel) {
  const auto message = channel.receive();
  if (!message) return "";
  return {reinterpret_cast<const char*>(message->bytes.data()), message->bytes.size()};
}

}  // namespace kvrail

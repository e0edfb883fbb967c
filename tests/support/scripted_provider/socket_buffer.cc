#include "support/scripted_provider/socket_buffer.h"

#include <sys/socket.h>

#include <cerrno>

namespace kvrail::scripted {

std::byte* SocketBuffer::extend(std::size_t size) {
  if (at_ > 0) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
  }
  bytes_.resize(bytes_.size() + size);
  return bytes_.data() + bytes_.size() - size;
}

bool SocketBuffer::flush(int fd) {
  while (size() > 0) {
    const ssize_t sent = ::send(fd, data(), size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    consume(static_cast<std::size_t>(sent));
  }
  return true;
}

bool SocketBuffer::receive(int fd) {
  constexpr std::size_t kMost = 256 * 1024;
  std::byte* room = extend(kMost);
  const ssize_t count = ::recv(fd, room, kMost, MSG_DONTWAIT);
  drop_last(kMost - static_cast<std::size_t>(count > 0 ? count : 0));
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace kvrail::scripted

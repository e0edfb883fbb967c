#include "memory/descriptor_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

// As many as one message can carry (SCM_MAX_FD), so that none is cut off for want of room here,
// and some for credentials and labels that the socket's owner may have asked for.
constexpr std::size_t kMaxDescriptors = 253;
constexpr std::size_t kControlBytes = CMSG_SPACE(kMaxDescriptors * sizeof(int)) + 512;

int socket_option(int socket, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

[[noreturn]] void throw_closed() {
  throw Error(ErrorCode::kPeerLost,
              "the socket that passes shared allocations is closed or not connected; see why the "
              "other process ended or closed it");
}

[[noreturn]] void throw_socket_error(const char* what, int error) {
  switch (error) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case EINVAL:  // of a socket that listens
      throw_closed();
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case ETOOMANYREFS:
      throw Error(ErrorCode::kLimit,
                  fmt::format("cannot {} a shared allocation: {}; raise the limit of open files, "
                              "which descriptors under way count to (ulimit -n), or receive them "
                              "sooner",
                              what, std::strerror(error)));
    default:
      throw Error(ErrorCode::kUnsupported, fmt::format("cannot {} a shared allocation: {}; allow "
                                                       "descriptors over Unix sockets here",
                                                       what, std::strerror(error)));
  }
}

// Takes all descriptors out of a message, so that none is lost.
void take_descriptors(msghdr& message, DescriptorSocket::Descriptors& taken) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t held = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < held; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof number, sizeof number);
      UniqueFd descriptor(number);
      if (taken.count++ == 0) taken.first = std::move(descriptor);
    }
  }
}

}  // namespace

DescriptorSocket::DescriptorSocket(int socket) : socket_(socket) {
  const int type = socket_option(socket, SO_TYPE);
  if (socket_option(socket, SO_DOMAIN) != AF_UNIX ||
      (type != SOCK_STREAM && type != SOCK_SEQPACKET)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("unix_socket {} is no Unix socket of type SOCK_STREAM or "
                            "SOCK_SEQPACKET; make it with socketpair(AF_UNIX, ...) or connect()",
                            socket));
  }
  stream_ = type == SOCK_STREAM;
}

void DescriptorSocket::wait(short events, Deadline deadline) const {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
          .count();
  if (left <= 0) {
    throw Error(ErrorCode::kDeadline,
                "no shared allocation passed the socket within timeout_ms; see whether the other "
                "process runs, or raise it");
  }
  pollfd entry{socket_, events, 0};
  // Whatever it says, the next try at the socket tells; but for interruptions that is a failure.
  if (::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 1'000'000))) < 0 &&
      errno != EINTR) {
    throw_socket_error("wait for", errno);
  }
}

void DescriptorSocket::send(std::span<const std::byte> bytes, int descriptor,
                            Deadline deadline) const {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  bool first = true;
  while (!bytes.empty()) {
    // sendmsg() only reads them.
    iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    if (first) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(sizeof descriptor);
      std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
    }
    const ssize_t sent = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      first = false;
    } else if (errno == EAGAIN) {
      wait(POLLOUT, deadline);
    } else if (errno != EINTR) {
      throw_socket_error("send", errno);
    }
  }
}

DescriptorSocket::Descriptors DescriptorSocket::receive(std::span<std::byte> bytes,
                                                        Deadline deadline) const {
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
  Descriptors descriptors;
  std::size_t filled = 0;
  int flags = 0;
  // On a stream, a message may come in pieces, and its descriptor with any of them.
  while (filled < bytes.size()) {
    iovec vector{bytes.data() + filled, bytes.size() - filled};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t received = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (received < 0) {
      if (errno == EAGAIN) {
        wait(POLLIN, deadline);
      } else if (errno != EINTR) {
        throw_socket_error("receive", errno);
      }
      continue;
    }
    take_descriptors(message, descriptors);
    flags |= message.msg_flags;
    filled += static_cast<std::size_t>(received);
    if (received == 0 && filled == 0 && descriptors.count == 0) throw_closed();
    if (received == 0 || !stream_) break;
  }
  if ((flags & MSG_CTRUNC) != 0) {
    throw Error(ErrorCode::kLimit,
                "the descriptor of a shared allocation was lost on receipt, for want of free "
                "ones or by a security policy; raise the limit of open files (ulimit -n)");
  }
  if (filled != bytes.size() || (flags & MSG_TRUNC) != 0) {
    throw Error(ErrorCode::kMalformed,
                fmt::format("a message {} the {} bytes of a shared allocation's was received; keep "
                            "the socket for SharedAllocation::send alone",
                            filled < bytes.size() ? "short of" : "beyond", bytes.size()));
  }
  return descriptors;
}

}  // namespace kvrail

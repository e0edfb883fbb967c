#include "support/scripted_provider/wire.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <random>
#include <system_error>
#include <utility>

#include <rdma/fi_errno.h>

namespace kvrail::scripted {
namespace {

// Of pieces that wait in a stream's own buffer.
constexpr std::size_t kBufferedBytes = 2 * kPieceBytes;
constexpr std::int64_t kRetryNs = 1'000'000;

struct SocketName {
  sockaddr_un address{};
  socklen_t length = 0;

  explicit SocketName(std::uint64_t process) {
    address.sun_family = AF_UNIX;
    // Abstract: it begins with a zero and ends with the process.
    const int size =
        std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "kvrail-scripted-%016llx",
                      static_cast<unsigned long long>(process));
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

UniqueFd open_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

Wire::Wire(Landing& landing, Control& control)
    : landing_(landing), control_(control), listener_(open_socket()) {
  std::random_device random;
  process_ = (std::uint64_t{random()} << 32) | random();
  const SocketName name(process_);
  if (!listener_ || ::bind(listener_.get(), name.get(), name.length) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0) {
    throw std::system_error(errno, std::generic_category(), "socket");
  }
}

void Wire::send(std::unique_ptr<Write> write) {
  Outgoing& to = find_outgoing(write->address.process);
  const bool is_first = !to.fd && to.queue.empty();
  to.queue.push_back(std::move(write));
  // What goes wrong here is seen by poll().
  if (is_first) connect(to);
  if (!to.fd) return;
  fill(to);
  to.out.flush(to.fd.get());
}

Wire::Outgoing& Wire::find_outgoing(std::uint64_t process) {
  const auto found = std::find_if(outgoing_.begin(), outgoing_.end(),
                                  [&](const Outgoing& to) { return to.process == process; });
  if (found != outgoing_.end()) return *found;
  outgoing_.emplace_back().process = process;
  return outgoing_.back();
}

// False if there is no such process.
bool Wire::connect(Outgoing& to) {
  UniqueFd fd = open_socket();
  const SocketName name(to.process);
  if (!fd || ::connect(fd.get(), name.get(), name.length) != 0) {
    return errno == EAGAIN || errno == EMFILE || errno == ENFILE;
  }
  to.fd = std::move(fd);
  fill(to);
  return true;
}

void Wire::fill(Outgoing& to) {
  while (!to.queue.empty() && to.out.size() < kBufferedBytes) add_piece(to);
}

// The next piece of the first write.
void Wire::add_piece(Outgoing& to) {
  const Write& write = *to.queue.front();
  Frame frame;
  frame.number = write.number;
  frame.endpoint = write.address.endpoint;
  frame.piece = {write.key, write.target_address, write.size_bytes, to.front_offset,
                 std::min(kPieceBytes, write.size_bytes - to.front_offset)};
  frame.immediate = write.immediate;
  frame.immediates = write.has_immediate ? write.effects.immediates : 0;
  frame.is_last = to.front_offset + frame.piece.length == write.size_bytes;
  frame.has_payload = true;
  to.out.append(frame);
  std::byte* payload = to.out.extend(frame.piece.length);
  const bool is_down = control_.is_down(write.source->nic);
  const bool was_read = !is_down && landing_.read(*write.source, [&] {
    return write.copy_source(frame.piece.offset, frame.piece.length, payload);
  });
  if (!was_read) {
    to.out.drop_last(frame.piece.length + sizeof frame);
    if (to.front_offset > 0) {  // the other side is told that no more comes
      frame.is_last = true;
      frame.has_payload = false;
      frame.piece.length = 0;
      to.out.append(frame);
    }
    landing_.complete(write, FI_ENETDOWN);
    to.queue.pop_front();
    to.front_offset = 0;
    return;
  }
  to.front_offset += frame.piece.length;
  if (!frame.is_last) return;
  to.awaiting.emplace(write.number, std::move(to.queue.front()));
  to.queue.pop_front();
  to.front_offset = 0;
}

bool Wire::poll(int wake_fd, std::int64_t timeout_ns) {
  polled_ = {{wake_fd, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  for (const Outgoing& to : outgoing_) {
    const bool sends = to.out.size() > 0 || !to.queue.empty();
    polled_.push_back({to.fd.get(), static_cast<short>(POLLIN | (sends ? POLLOUT : 0)), 0});
    if (!to.fd) timeout_ns = timeout_ns < 0 ? kRetryNs : std::min(timeout_ns, kRetryNs);
  }
  for (const Incoming& from : incoming_) {
    const bool sends = from.out.size() > 0;
    polled_.push_back({from.fd.get(), static_cast<short>(POLLIN | (sends ? POLLOUT : 0)), 0});
  }
  const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  if (::ppoll(polled_.data(), polled_.size(), timeout_ns < 0 ? nullptr : &timeout, nullptr) < 0) {
    return true;
  }
  auto events = polled_.begin() + 2;
  std::erase_if(outgoing_, [&](Outgoing& to) {
    if (serve(to, (events++)->revents)) return false;
    fail_all(to, FI_ECONNRESET);
    return true;
  });
  std::erase_if(incoming_, [&](Incoming& from) { return !serve(from, (events++)->revents); });
  if ((polled_[1].revents & POLLIN) != 0) accept();
  return (polled_[0].revents & POLLIN) != 0;
}

void Wire::accept() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) {
    incoming_.emplace_back().fd = std::move(fd);
  } else if (errno == EMFILE || errno == ENFILE) {
    ::poll(nullptr, 0, 1);
  }
}

bool Wire::serve(Outgoing& to, short events) {
  if (!to.fd) return connect(to);
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
    if (!to.in.receive(to.fd.get())) return false;
    Answer answer;
    for (; to.in.size() >= sizeof answer; to.in.consume(sizeof answer)) {
      std::memcpy(&answer, to.in.data(), sizeof answer);
      const auto found = to.awaiting.find(answer.number);
      if (found == to.awaiting.end()) continue;
      const Write& write = *found->second;
      const bool fails = answer.error == 0 && write.effects.fails_after;
      landing_.complete(write, fails ? FI_EIO : answer.error);
      to.awaiting.erase(found);
    }
  }
  fill(to);
  return to.out.flush(to.fd.get());
}

bool Wire::serve(Incoming& from, short events) {
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
    if (!from.in.receive(from.fd.get())) return false;
    Frame frame;
    while (from.in.size() >= sizeof frame) {
      std::memcpy(&frame, from.in.data(), sizeof frame);
      if (frame.piece.length > kPieceBytes) return false;
      if (from.in.size() < sizeof frame + frame.piece.length) break;
      land(from, frame, from.in.data() + sizeof frame);
      from.in.consume(sizeof frame + frame.piece.length);
    }
  }
  return from.out.flush(from.fd.get());
}

void Wire::land(Incoming& from, const Frame& frame, const std::byte* payload) {
  control_.refresh();
  const auto port = landing_.find_port(frame.endpoint);
  if (frame.piece.offset == 0) from.error = 0;
  if (!port) from.error = FI_ECONNREFUSED;
  if (from.error == 0 && frame.has_payload) {
    from.error = landing_.land(*port, nullptr, frame.piece, [&](std::byte* to) {
      store(to, payload, frame.piece.length);
      return true;
    });
  }
  if (!frame.is_last || !frame.has_payload) return;
  if (from.error == 0 && frame.immediates > 0) {
    from.error = landing_.arrive(*port, frame.immediate, frame.immediates);
  }
  from.out.append(Answer{frame.number, from.error});
}

void Wire::fail_all(Outgoing& to, int error) {
  for (const auto& write : to.queue) landing_.complete(*write, error);
  for (const auto& [number, write] : to.awaiting) landing_.complete(*write, error);
}

void Wire::fail_writes_of_nics_that_are_down() {
  for (Outgoing& to : outgoing_) {
    std::erase_if(to.awaiting, [&](const auto& entry) {
      if (!control_.is_down(entry.second->source->nic)) return false;
      landing_.complete(*entry.second, FI_ENETDOWN);
      return true;
    });
    // Those not yet sent fail when their turn comes.
    fill(to);
  }
}

}  // namespace kvrail::scripted

#include "base/event_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {

EventFd::EventFd() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!fd_) {
    throw Error(ErrorCode::kLimit,
                fmt::format("cannot make an eventfd: {}; raise the limit of open files (ulimit -n)",
                            std::strerror(errno)));
  }
}

void EventFd::signal() const noexcept {
  const std::uint64_t one = 1;
  // A full counter means that it is readable already.
  [[maybe_unused]] const auto written = ::write(fd_.get(), &one, sizeof one);
}

void EventFd::clear() const noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(fd_.get(), &count, sizeof count);
}

}  // namespace kvrail

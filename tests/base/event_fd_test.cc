#include "base/event_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "kvrail/error.h"
#include "support/process_deadline.h"

namespace kvrail {
namespace {

bool readable(const EventFd& event, int timeout_ms = 0) {
  pollfd fd{event.get(), POLLIN, 0};
  return ::poll(&fd, 1, timeout_ms) == 1;
}

TEST(EventFd, IsReadableFromSignalToClear) {
  const EventFd event;
  EXPECT_FALSE(readable(event));
  event.signal();
  EXPECT_TRUE(readable(event));
  event.clear();
  EXPECT_FALSE(readable(event));
}

TEST(EventFd, ManySignalsAreOne) {
  const EventFd event;
  for (int i = 0; i < 1000; ++i) event.signal();
  event.clear();
  EXPECT_FALSE(readable(event));
}

TEST(EventFd, ClearingWithoutASignalDoesNotWait) {
  const EventFd event;
  event.clear();
  EXPECT_FALSE(readable(event));
}

TEST(EventFd, WakesAnotherThread) {
  const EventFd event;
  std::thread signaller([&] { event.signal(); });
  EXPECT_TRUE(readable(event, 10'000));
  signaller.join();
}

TEST(EventFd, IsClosedInProgramsThatAreStarted) {
  const EventFd event;
  EXPECT_NE(::fcntl(event.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(EventFd, OutOfDescriptorsIsAnErrorThatNamesTheLimit) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors of its own to look at objects";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  ErrorCode code = ErrorCode::kOk;
  std::string text;
  try {
    const EventFd event;
  } catch (const Error& error) {
    code = error.code();
    text = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(code, ErrorCode::kLimit);
  EXPECT_NE(text.find("ulimit -n"), std::string::npos) << text;
}

TEST(UniqueFd, ClosesWhatItOwns) {
  int number = -1;
  {
    UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(bool(fd));
    number = fd.get();
    UniqueFd moved(std::move(fd));
    EXPECT_FALSE(bool(fd));  // NOLINT(bugprone-use-after-move): what a move leaves is promised
    EXPECT_EQ(moved.get(), number);
    UniqueFd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int replaced = other.get();
    other = std::move(moved);
    EXPECT_EQ(other.get(), number);
    EXPECT_EQ(::fcntl(replaced, F_GETFD), -1);
  }
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace kvrail

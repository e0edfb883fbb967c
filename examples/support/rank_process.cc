#include "support/rank_process.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "support/ranks.h"

namespace mock_engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeToEnd = 5s;

// The rank's socket is its standard input.
[[noreturn]] void become_rank(int socket, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  static const char* const arguments[] = {"prefill_decode", "--role", "rank", nullptr};
  if (dup2(socket, STDIN_FILENO) >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) {
    execv("/proc/self/exe", const_cast<char* const*>(arguments));
  }
  _exit(127);
}

}  // namespace

RankProcess::RankProcess(std::string name) : name_(std::move(name)) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    throw std::system_error(errno, std::generic_category(), "a socket for " + name_);
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become_rank(sockets[1], parent);
  const int error = errno;
  close(sockets[1]);
  socket_ = sockets[0];
  if (pid_ < 0) {
    close(socket_);
    throw std::system_error(error, std::generic_category(), "starting " + name_);
  }
}

RankProcess::~RankProcess() {
  close(socket_);
  const auto end = std::chrono::steady_clock::now() + kTimeToEnd;
  int status = 0;
  while (!status_ && waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= end) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      return;
    }
    std::this_thread::sleep_for(1ms);
  }
}

void RankProcess::create_memory(std::uint64_t size_bytes) {
  send({{"bytes", size_bytes}, {"name", name_}});
}

void RankProcess::receive_memory() { memory_ = kvrail::SharedAllocation::receive(socket_); }

void RankProcess::send(const Message& message) {
  try {
    send_message(socket_, message);
  } catch (const std::system_error&) {
    throw RankLost(how_it_ended());
  }
}

Message RankProcess::receive() {
  if (auto message = receive_message(socket_)) return std::move(*message);
  throw RankLost(how_it_ended());
}

std::string RankProcess::how_it_ended() const {
  const std::lock_guard lock(mutex_);
  if (!status_) {
    int status = 0;
    waitpid(pid_, &status, 0);
    status_ = status;
  }
  return WIFSIGNALED(*status_) ? fmt::format("{} (process {}) was killed by signal {}", name_, pid_,
                                             WTERMSIG(*status_))
                               : fmt::format("{} (process {}) ended with status {}", name_, pid_,
                                             WEXITSTATUS(*status_));
}

}  // namespace mock_engine

#include "support/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace mock_engine {
namespace {

[[noreturn]] void become(int output, char* const* arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(output, STDOUT_FILENO) >= 0) execv("/proc/self/exe", arguments);
  _exit(127);
}

}  // namespace

ChildProcess::ChildProcess(std::string name, const std::vector<std::string>& arguments)
    : name_(std::move(name)) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "a pipe for " + name_);
  }
  pid_ = fork();
  if (pid_ == 0) become(pipe[1], pointers.data());
  const int error = errno;
  close(pipe[1]);
  output_ = pipe[0];
  if (pid_ < 0) {
    close(output_);
    throw std::system_error(error, std::generic_category(), "starting " + name_);
  }
}

ChildProcess::~ChildProcess() {
  if (ended()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(output_);
}

void ChildProcess::read(const std::function<void(const std::string&)>& line) {
  std::array<char, 65536> buffer{};
  const ssize_t size = ::read(output_, buffer.data(), buffer.size());
  if (size < 0 && errno == EINTR) return;
  if (size > 0) {
    partial_line_.append(buffer.data(), static_cast<std::size_t>(size));
    std::size_t begin = 0;
    for (auto end = partial_line_.find('\n'); end != std::string::npos;
         end = partial_line_.find('\n', begin)) {
      line(partial_line_.substr(begin, end - begin));
      begin = end + 1;
    }
    partial_line_.erase(0, begin);
    return;
  }
  close(output_);
  output_ = -1;
  int status = 0;
  waitpid(pid_, &status, 0);
  exit_status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void ChildProcess::send_signal(int signal) const {
  if (!ended()) kill(pid_, signal);
}

}  // namespace mock_engine

#include "support/process_child.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "support/process_deadline.h"

extern char** environ;

namespace kvrail {
namespace {

constexpr int kChannelFd = 3;

void require(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

// The letter after the command's name in /proc/<pid>/task/<tid>/stat.
char thread_state(const std::filesystem::path& stat) {
  std::ifstream file(stat);
  std::string line;
  std::getline(file, line);
  const auto end_of_name = line.rfind(')');
  return end_of_name == std::string::npos || end_of_name + 2 >= line.size() ? '?'
                                                                            : line[end_of_name + 2];
}

bool all_threads_stopped(pid_t pid) {
  const auto tasks = std::filesystem::path("/proc") / std::to_string(pid) / "task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    if (thread_state(task.path() / "stat") != 'T') return false;
  }
  return true;
}

}  // namespace

ChildProcess::ChildProcess(const std::string& argument) {
  int ends[2] = {-1, -1};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? 0 : errno,
          "socketpair");
  channel_ = std::make_unique<ProcessChannel>(UniqueFd(ends[0]));
  const UniqueFd child_end(ends[1]);

  // Nothing else is inherited: a descriptor of a link that lives on in the child would keep that
  // link's connection open.
  posix_spawn_file_actions_t actions;
  require(::posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  require(::posix_spawn_file_actions_adddup2(&actions, child_end.get(), kChannelFd), "adddup2");
  require(::posix_spawn_file_actions_addclosefrom_np(&actions, kChannelFd + 1), "addclosefrom");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string words[] = {program, argument};
  char* arguments[] = {words[0].data(), words[1].data(), nullptr};
  const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  require(error, "posix_spawn");
}

ChildProcess::~ChildProcess() { kill(); }

bool ChildProcess::stop() {
  ::kill(pid_, SIGSTOP);
  return poll_until([this] { return all_threads_stopped(pid_); });
}

void ChildProcess::resume() { ::kill(pid_, SIGCONT); }

void ChildProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

int ChildProcess::wait_for_exit() {
  if (pid_ < 0) return -1;
  int status = 0;
  if (!poll_until([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::unique_ptr<ProcessChannel> child_channel() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return std::make_unique<ProcessChannel>(UniqueFd(kChannelFd));
}

}  // namespace kvrail

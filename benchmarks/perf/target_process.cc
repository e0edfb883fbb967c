#include "perf/target_process.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

extern char** environ;

namespace kvrail::perf {
namespace {

constexpr int kChannelFd = 3;
constexpr std::chrono::seconds kExitPatience{10};

void require(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

TargetProcess::TargetProcess(const LocalSettings& local) {
  int ends[2] = {-1, -1};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? 0 : errno,
          "socketpair");
  channel_ = Channel::adopt(ends[0]);
  const auto child_end = Channel::adopt(ends[1]);

  posix_spawn_file_actions_t actions;
  require(::posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  int error = ::posix_spawn_file_actions_adddup2(&actions, ends[1], kChannelFd);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string words[] = {program,         kTargetCommand,
                         "--bind",        local.bind_address,
                         "--core",        std::to_string(local.core),
                         "--cuda-driver", local.cuda_driver};
  char* arguments[std::size(words) + 1] = {};
  for (std::size_t i = 0; i < std::size(words); ++i) arguments[i] = words[i].data();
  if (error == 0) {
    error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  require(error, "posix_spawn");
}

TargetProcess::~TargetProcess() {
  channel_.reset();
  const auto deadline = std::chrono::steady_clock::now() + kExitPatience;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) ::kill(pid_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::unique_ptr<Channel> source_channel() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return Channel::adopt(kChannelFd);
}

}  // namespace kvrail::perf

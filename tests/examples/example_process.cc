#include "examples/example_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

namespace mock_engine {
namespace {

using nlohmann::json;

std::optional<json> event_of(const std::string& line) {
  json event = json::parse(line, nullptr, false);
  if (!event.is_object() || !event.contains("event")) return std::nullopt;
  return event;
}

}  // namespace

ExampleProcess::ExampleProcess(const std::vector<std::string>& arguments) {
  std::vector<std::string> all{PREFILL_DECODE};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : all) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  int output[2];
  int errors[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe2");
  }
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    dup2(output[1], STDOUT_FILENO);
    dup2(errors[1], STDERR_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  close(output[1]);
  close(errors[1]);
  readers_[0] = std::thread([this, fd = output[0]] { read_lines(fd); });
  readers_[1] = std::thread([this, fd = errors[0]] { read_lines(fd); });
}

ExampleProcess::~ExampleProcess() {
  kill(-pid_, SIGKILL);
  if (!status_) waitpid(pid_, nullptr, 0);
  for (std::thread& reader : readers_) reader.join();
}

void ExampleProcess::read_lines(int descriptor) {
  FILE* stream = fdopen(descriptor, "r");
  char* line = nullptr;
  std::size_t capacity = 0;
  for (ssize_t size = 0; (size = getline(&line, &capacity, stream)) > 0;) {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line, static_cast<std::size_t>(size));
    changed_.notify_all();
  }
  std::free(line);
  std::fclose(stream);
  const std::lock_guard lock(mutex_);
  --open_outputs_;
  changed_.notify_all();
}

std::optional<json> ExampleProcess::wait_for_event(const std::string& kind) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  std::unique_lock lock(mutex_);
  std::size_t looked_at = 0;
  while (true) {
    for (; looked_at < lines_.size(); ++looked_at) {
      const auto event = event_of(lines_[looked_at]);
      if (event && event->at("event") == kind) return event;
    }
    if (open_outputs_ == 0 || changed_.wait_until(lock, end) == std::cv_status::timeout) {
      return std::nullopt;
    }
  }
}

void ExampleProcess::send_signal(int signal) const { kill(pid_, signal); }

std::optional<int> ExampleProcess::wait(std::chrono::milliseconds limit) {
  {
    const auto end = std::chrono::steady_clock::now() + limit;
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, end, [this] { return open_outputs_ == 0; })) {
      return std::nullopt;
    }
  }
  if (!status_) {
    int status = 0;
    waitpid(pid_, &status, 0);
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return status_;
}

std::vector<json> ExampleProcess::events(const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  std::vector<json> found;
  for (const std::string& line : lines_) {
    const auto event = event_of(line);
    if (event && event->at("event") == kind) found.push_back(*event);
  }
  return found;
}

std::string ExampleProcess::said() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const std::string& line : lines_) all += line;
  return all;
}

nlohmann::json run_to_end(const std::vector<std::string>& arguments) {
  ExampleProcess process(arguments);
  const auto status = process.wait();
  EXPECT_EQ(status, 0) << process.said();
  const auto summaries = process.events("summary");
  if (summaries.size() != 1) {
    ADD_FAILURE() << process.said();
    return {};
  }
  const nlohmann::json& summary = summaries.front();
  EXPECT_EQ(summary.at("failed"), 0);
  EXPECT_EQ(summary.at("lost"), 0);
  EXPECT_EQ(summary.at("wrong_bytes"), 0);
  EXPECT_EQ(summary.at("canary_bytes"), 0);
  EXPECT_EQ(summary.at("pages_free"), summary.at("pages"));
  return summary;
}

}  // namespace mock_engine

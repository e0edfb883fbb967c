#include "support/launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "support/console.h"
#include "support/node.h"

namespace mock_engine {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kForever = std::chrono::milliseconds(std::chrono::hours(24 * 365));
constexpr auto kTimeToStop = 10s;
constexpr int kSetUpFailed = 2;

using Children = std::vector<std::unique_ptr<ChildProcess>>;

bool any_ended(const Children& children) {
  return std::any_of(children.begin(), children.end(), [](const auto& c) { return c->ended(); });
}
bool all_ended(const Children& children) {
  return std::all_of(children.begin(), children.end(), [](const auto& c) { return c->ended(); });
}

}  // namespace

Launcher::Launcher(Options options, std::vector<std::string> arguments)
    : options_(std::move(options)), arguments_(std::move(arguments)) {}

int Launcher::run() {
  Options node = options_;
  node.memory_gib /= options_.prefills + options_.decodes;
  const std::vector<PromptPtr> prompts = requested_prompts(options_);
  requests_ = static_cast<std::uint32_t>(prompts.size());
  for (const Role role : {Role::kPrefill, Role::kDecode}) {
    node.role = role;
    check_prompts_fit(prompts, cache_options(node));
  }

  const std::string memory = fmt::format("{}", node.memory_gib);
  for (std::uint32_t i = 0; i < options_.prefills; ++i) {
    prefills_.push_back(start("prefill", i, options_.prefills, {"--memory-gib", memory}));
    // One after another, so that the addresses are in their order.
    read_until([&] { return addresses_.size() > i || any_ended(prefills_); }, kForever);
    if (any_ended(prefills_)) return kSetUpFailed;
  }
  const std::string connect = fmt::format("{}", fmt::join(addresses_, ","));
  for (std::uint32_t i = 0; i < options_.decodes; ++i) {
    decodes_.push_back(
        start("decode", i, options_.decodes, {"--memory-gib", memory, "--connect", connect}));
  }
  read_until([&] { return all_ended(decodes_); }, kForever);
  for (const auto& prefill : prefills_) prefill->send_signal(SIGTERM);
  if (!read_until([&] { return all_ended(prefills_); }, kTimeToStop)) {
    for (const auto& prefill : prefills_) prefill->send_signal(SIGKILL);
    read_until([&] { return all_ended(prefills_); }, kForever);
  }
  show_progress(true);

  const Event summary = summary_.to_json(requests_);
  if (options_.json) {
    fmt::print("{}\n", summary.dump());
  } else {
    fmt::print("{}, {} prefill and {} decode {}\n{}", options_.model, options_.prefills,
               options_.decodes, options_.decodes == 1 ? "node" : "nodes", to_table(summary));
  }
  const int status = worst_exit_status();
  return status != 0 ? status : is_well(summary) ? 0 : 1;
}

std::unique_ptr<ChildProcess> Launcher::start(const std::string& role, std::uint32_t index,
                                              std::uint32_t of,
                                              const std::vector<std::string>& more) const {
  std::vector<std::string> arguments = arguments_;
  arguments.insert(arguments.end(),
                   {"--json", "--role", role, "--slice", fmt::format("{}/{}", index, of)});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<ChildProcess>(fmt::format("{} process {}", role, index), arguments);
}

bool Launcher::read_until(const Done& done, std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  while (!done()) {
    if (Clock::now() >= end) return false;
    std::vector<ChildProcess*> open;
    std::vector<pollfd> descriptors;
    for (const Children* children : {&prefills_, &decodes_}) {
      for (const auto& child : *children) {
        if (child->ended()) continue;
        open.push_back(child.get());
        descriptors.push_back({child->descriptor(), POLLIN, 0});
      }
    }
    poll(descriptors.data(), descriptors.size(), 100);
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (descriptors[i].revents == 0) continue;
      open[i]->read([this](const std::string& line) { take(Event::parse(line)); });
      if (open[i]->ended() && open[i]->exit_status() >= 128) {
        fmt::print(stderr, "{} was killed by signal {}\n", open[i]->name(),
                   open[i]->exit_status() - 128);
      }
    }
    show_progress(false);
  }
  return true;
}

void Launcher::take(const Event& event) {
  const std::string kind = event.at("event");
  if (kind == "listening") addresses_.push_back(event.at("address"));
  if (event.contains("ok") && !event.at("ok")) fmt::print(stderr, "{}\n", to_line(event));
  summary_.add(event);
}

void Launcher::show_progress(bool last) {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (!last && Clock::now() < next_progress_) return;
  next_progress_ = Clock::now() + (terminal ? 100ms : 2000ms);
  if (summary_.requests_received() == shown_ && !terminal) return;
  shown_ = summary_.requests_received();
  fmt::print(stderr, "{}{} of {} requests ended, {:.3f} GB{}", terminal ? "\r" : "",
             summary_.requests_received(), requests_, summary_.bytes_received() / 1e9,
             terminal && !last ? "" : "\n");
}

int Launcher::worst_exit_status() const {
  int worst = 0;
  for (const Children* children : {&prefills_, &decodes_}) {
    for (const auto& child : *children) {
      const int status = child->exit_status();
      if (status == kSetUpFailed) return kSetUpFailed;
      if (status != 0) worst = 1;
    }
  }
  return worst;
}

}  // namespace mock_engine

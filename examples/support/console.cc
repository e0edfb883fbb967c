#include "support/console.h"

#include <fmt/format.h>

#include <cstdio>

namespace mock_engine {
namespace {

std::string text(const Event& event, const char* key) { return event.value(key, std::string()); }

std::string outcome(const Event& event, const char* preposition) {
  const std::string head =
      fmt::format("{} {} {}", text(event, "request"), preposition, text(event, "peer"));
  if (!event.at("ok")) return fmt::format("{} failed: {}", head, text(event, "reason"));
  return fmt::format("{}: {} prompt tokens, {:.1f} MB", head,
                     event.at("prompt_tokens").get<std::uint64_t>(),
                     event.at("bytes").get<double>() / 1e6);
}

void print_line(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

std::string to_line(const Event& event) {
  const std::string kind = event.at("event");
  if (kind == "listening") return "listening on " + text(event, "address");
  if (kind == "connected") return "connected: " + text(event, "peer");
  if (kind == "sent") return outcome(event, "for");
  if (kind == "received") return outcome(event, "from");
  if (kind == "lost_peer") return text(event, "reason");  // names the peer
  if (kind == "ranks") {
    return fmt::format("{} rank processes: {}", event.at("pids").size(),
                       fmt::join(event.at("pids").get<std::vector<int>>(), ", "));
  }
  if (kind == "traffic") {
    return fmt::format("{} runs were sent", event.at("runs").get<std::uint64_t>());
  }
  if (kind == "pages") {
    return fmt::format("{} pages of {} are free", event.at("free").get<std::uint64_t>(),
                       event.at("count").get<std::uint64_t>());
  }
  return event.dump();
}

void Console::add(const Event& event) {
  const std::lock_guard lock(mutex_);
  summary_.add(event);
  print_line(json_ ? event.dump() : to_line(event));
}

bool Console::finish() {
  const std::lock_guard lock(mutex_);
  const Event summary = summary_.to_json(0);
  print_line(json_ ? summary.dump() : to_table(summary));
  return is_well(summary);
}

}  // namespace mock_engine

#include "faults/node_engine.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "support/process_usage.h"

namespace kvrail {
namespace {

// More than that between two looks at the clock, and the process was stopped or starved.
constexpr std::int64_t kMaxTickNs = 20'000'000;
constexpr std::int64_t kStatsMs = 50;

}  // namespace

NodeEngine::NodeEngine(NodeRole role, const NodeSetup& setup, ProcessChannel& channel)
    : setup_(setup),
      channel_(channel),
      inbox_(channel),
      node_(role, setup),
      random_(setup.seed),
      last_ns_(now_ns()) {}

void NodeEngine::run() {
  while (!ended_) {
    tick();
    while (const auto text = inbox_.poll()) {
      if (text->empty()) return;
      command(*text);
      if (ended_) return;
    }
    poll_events();
    const bool busy = work();
    if (settling_) try_to_settle();
    demand_none(overdue_text());
    if (active_ms() - stats_sent_ms_ > kStatsMs) send_stats();
    wait(busy);
  }
}

void NodeEngine::tick() {
  const std::int64_t now = now_ns();
  active_ns_ += std::min(now - last_ns_, kMaxTickNs);
  last_ns_ = now;
}

void NodeEngine::poll_events() {
  while (auto event = node_.events().poll()) on_event(*event);
}

void NodeEngine::command(const std::string& text) {
  std::istringstream words(text);
  std::string verb;
  words >> verb;
  if (verb == "settle") {
    settling_ = true;
    settling_since_ms_ = active_ms();
  } else if (verb == "end") {
    ended_ = true;
    node_.destroy_messenger();
    poll_events();
    demand_none(open_text());
    node_.sweep();
    send_stats();
    say("ended");
  } else if (verb == "tell") {
    say("open " + open_text());
  } else {
    on_command(verb, words);
  }
}

void NodeEngine::try_to_settle() {
  const std::string open = open_text();
  const std::uint64_t open_there = node_.messenger().stats().requests_open;
  if (open.empty() && node_.pages().full() && node_.slots().full() && open_there == 0) {
    settling_ = false;
    node_.sweep();
    const std::uint64_t replaced = node_.messenger().stats().links_replaced;
    tally_.add("links_replaced", replaced - std::exchange(links_replaced_, replaced));
    send_stats();
    const ProcessUsage usage = process_usage();
    say(fmt::format("settled peers={} threads={} descriptors={} resident={}",
                    node_.messenger().stats().peers_attached, usage.threads, usage.descriptors,
                    usage.resident_bytes));
  } else if (overdue(settling_since_ms_)) {
    throw Violation(fmt::format(
        "it does not come to rest: {}; {} pages and {} slots are free; requests_open is {}",
        open.empty() ? "no request is open" : open, node_.pages().free(), node_.slots().free(),
        open_there));
  }
}

void NodeEngine::send_stats() {
  stats_sent_ms_ = active_ms();
  if (tally_.empty()) return;
  say("stats " + tally_.text());
  tally_.clear();
}

void NodeEngine::wait(bool busy) {
  pollfd entries[2] = {{node_.events().descriptor(), POLLIN, 0}, {inbox_.descriptor(), POLLIN, 0}};
  ::poll(entries, 2, busy ? 0 : open_text().empty() && !settling_ ? 20 : 1);
}

}  // namespace kvrail

#include "perf/source_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "kvrail/error.h"
#include "perf/host.h"
#include "perf/kvrail_transport.h"

namespace kvrail::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMaxPasses = 10000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

SourceSide::SourceSide(Channel& channel, const Settings& settings, const LocalSettings& local)
    : channel_(channel), settings_(settings) {
  channel_.send({{"kvrail-perf", kWordsVersion}, {"settings", to_json(settings)}});
  environment_ = {{"source", describe_host()}, {"target", channel_.receive().at("host")}};
  contenders_ = connect_contenders(settings, local, channel_, Role::kSource);
  const auto& kvrail = dynamic_cast<const KvrailTransport&>(*contenders_.front().transport);
  environment_["provider"] = kvrail.provider();
  environment_["engine"] = kvrail.describe();
}

std::vector<SourceSide::Test> SourceSide::tests() const {
  std::vector<std::string> all;
  std::vector<std::string> plain;
  for (const Contender& contender : contenders_) {
    all.push_back(contender.name);
    // A single page leaves nothing to merge.
    if (contender.name != "best") plain.push_back(contender.name);
  }
  const std::vector<Test> table = {
      {"write", false, settings_.list_pages, settings_.layout, settings_.page_bytes,
       settings_.pages, all},
      // Eight bytes, each in a submission of its own.
      {"immediate", false, 1, Layout::kApart, {8}, settings_.pages, plain},
      {"message", true, 1, Layout::kNeighbouring, {4096}, 1, plain},
  };
  std::vector<Test> chosen;
  for (const std::string& name : settings_.tests) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const Test& test) { return test.name == name; });
    if (found == table.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("test '{}': choose write, immediate or message", name));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

Results SourceSide::run() {
  Results results{environment_, to_json(settings_), {}};
  for (const Test& test : tests()) {
    for (const std::uint64_t page_bytes : test.page_bytes) measure(test, page_bytes, results);
  }
  channel_.send({{"do", "end"}});
  return results;
}

void SourceSide::measure(const Test& test, std::uint64_t page_bytes, Results& results) {
  open(test, page_bytes);
  Case shape;
  shape.test = test.name;
  shape.layout = to_string(test.layout);
  shape.page_bytes = page_bytes;
  shape.pages = plan_.pages();
  shape.list_pages = plan_.list_pages;
  std::uint64_t passes = 1;
  if (test.messages) {
    shape.messages = settings_.messages;
    for (const std::string& name : test.contenders) {
      messages(name, std::min(settings_.messages, 100U));
    }
  } else {
    // Each warms up, and kvrail's second pass says how many fill a round.
    for (const std::string& name : test.contenders) round(name, 1);
    const double once = std::max(round("kvrail", 1).seconds, 1e-6);
    passes = static_cast<std::uint64_t>(std::ceil(settings_.round_ms / 1e3 / once));
    passes = std::clamp<std::uint64_t>(passes, 1, kMaxPasses);
    shape.passes = passes;
  }
  const std::size_t first = results.cases.size();
  for (const std::string& name : test.contenders) {
    results.cases.push_back(shape);
    results.cases.back().contender = name;
  }
  for (std::uint32_t i = 0; i < settings_.rounds; ++i) {
    for (std::size_t k = 0; k < test.contenders.size(); ++k) {
      const std::string& name = test.contenders[k];
      results.cases[first + k].rounds.push_back(test.messages ? messages(name, settings_.messages)
                                                              : round(name, passes));
    }
  }
}

void SourceSide::open(const Test& test, std::uint64_t page_bytes) {
  const auto pages = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(test.pages, settings_.max_memory_bytes / page_bytes));
  plan_ = make_page_plan(test.layout, page_bytes, pages, test.list_pages);
  channel_.send({{"do", "open"},
                 {"layout", to_string(test.layout)},
                 {"page_bytes", page_bytes},
                 {"pages", pages},
                 {"list_pages", plan_.list_pages}});
  auto memory = std::make_unique<PatternMemory>(plan_.memory_bytes());
  memory->fill();
  for (const Contender& contender : contenders_) {
    contender.transport->open(plan_, *memory, channel_);
  }
  memory_ = std::move(memory);
}

Round SourceSide::round(const std::string& contender, std::uint64_t passes) {
  Transport& transport = find_contender(contenders_, contender);
  channel_.send({{"do", "round"}, {"contender", contender}, {"passes", passes}});
  const Json armed = channel_.receive();
  Round round;
  round.operations = passes * plan_.pages();
  round.bytes = round.operations * plan_.page_bytes;
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  SendReport report = transport.send(passes, armed);
  if (transport.needs_progress()) {
    while (!channel_.readable()) transport.progress();
  }
  round.target_cpu_s = channel_.receive().at("cpu_s");
  round.seconds = seconds_since(start);
  round.source_cpu_s = cpu_seconds() - cpu_before;
  round.writes = report.writes;
  round.latencies_us = std::move(report.list_latencies_us);
  require_right_bytes(transport, contender);
  return round;
}

Round SourceSide::messages(const std::string& contender, std::uint32_t count) {
  Transport& transport = find_contender(contenders_, contender);
  PatternMemory& memory = *memory_;
  std::fill_n(memory.data() + plan_.echo_offset(), plan_.page_bytes, std::byte{0});
  channel_.send({{"do", "messages"},
                 {"contender", contender},
                 {"count", count},
                 {"armed", transport.arm_ping(count)}});
  const Json armed = channel_.receive();
  Round round;
  round.operations = count;
  round.writes = count;
  round.bytes = count * plan_.page_bytes;
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  round.latencies_us = transport.ping(count, armed);
  round.seconds = seconds_since(start);
  round.source_cpu_s = cpu_seconds() - cpu_before;
  if (transport.needs_progress()) {
    while (!channel_.readable()) transport.progress();
  }
  round.target_cpu_s = channel_.receive().at("cpu_s");
  require_right_bytes(transport, contender);
  const std::string fault =
      memory.check_range(plan_.echo_offset(), plan_.source_offsets[0], plan_.page_bytes);
  if (!fault.empty()) {
    throw Error(ErrorCode::kFabric, fmt::format("{}: the answer has {}", contender, fault));
  }
  return round;
}

void SourceSide::require_right_bytes(Transport& transport, const std::string& contender) {
  if (transport.needs_progress()) {
    while (!channel_.readable()) transport.progress();
  }
  const std::string fault = channel_.receive().at("fault");
  if (!fault.empty()) {
    throw Error(ErrorCode::kFabric,
                fmt::format("{} at {} a page: {}", contender, bytes_text(plan_.page_bytes), fault));
  }
}

}  // namespace kvrail::perf

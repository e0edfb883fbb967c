#include "perf/source_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "kvrail/error.h"
#include "perf/device.h"
#include "perf/host.h"
#include "perf/kvrail_transport.h"

namespace kvrail::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMaxPasses = 10000;
constexpr std::uint32_t kWarmUpMessages = 100;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Json greet(Channel& channel, const Settings& settings, const CudaDevice* gpu) {
  channel.send({{"kvrail-perf", kWordsVersion}, {"settings", to_json(settings)}});
  return {{"source", describe_side(gpu)}, {"target", channel.receive().at("host")}};
}

// The tests and their scenes, which are all known before anything is measured.
std::vector<std::pair<Test, Scene>> scenes_of(const Settings& settings) {
  std::vector<std::pair<Test, Scene>> scenes;
  for (const Test& test : choose_tests(settings)) {
    for (const std::uint64_t page_bytes : test.page_bytes) {
      Scene scene = test.scene;
      scene.page_bytes = page_bytes;
      if (page_bytes != 0) {
        scene.pages = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(scene.pages, settings.max_memory_bytes / page_bytes));
      }
      scenes.emplace_back(test, std::move(scene));
    }
  }
  return scenes;
}

}  // namespace

SourceSide::SourceSide(Channel& channel, const Settings& settings, const LocalSettings& local)
    : channel_(channel),
      settings_(settings),
      gpu_(open_device(local, kDeviceOption)),
      environment_(greet(channel, settings, gpu_.get())),
      stage_(settings, local, gpu_, channel, Role::kSource) {
  const auto& kvrail = dynamic_cast<const KvrailTransport&>(stage_.contender("kvrail"));
  environment_["provider"] = kvrail.provider();
  environment_["engine"] = kvrail.describe();
}

Results SourceSide::run(Progress& progress) {
  try {
    return run_tests(progress);
  } catch (const Error&) {
    // What went wrong at the target says more than how it looks from here.
    channel_.throw_late_words();
    throw;
  }
}

Results SourceSide::run_tests(Progress& progress) {
  Results results{environment_, to_json(settings_), {}, {}};
  // The text of a file, which may be long.
  results.settings.erase("model_config");
  const auto scenes = scenes_of(settings_);
  std::uint64_t total = 0;
  for (const auto& [test, scene] : scenes) total += scene.contenders.size() * settings_.rounds;
  progress.set_total(total);
  for (const auto& [test, scene] : scenes) {
    open(scene);
    if (test.rounds == Test::Rounds::kSignals) {
      measure_signals(test, progress, results);
    } else {
      measure(test, scene, progress, results);
    }
  }
  channel_.send({{"do", "end"}});
  return results;
}

void SourceSide::open(const Scene& scene) {
  channel_.send({{"do", "open"}, {"scene", to_json(scene)}});
  stage_.open(scene);
}

// Returns how many passes fill a round.
std::uint64_t SourceSide::warm_up(const Test& test, const Scene& scene) {
  for (const std::string& name : scene.contenders) {
    if (test.rounds == Test::Rounds::kMessages) {
      messages(name, std::min(settings_.messages, kWarmUpMessages));
    } else {
      pages(name, 1);
    }
  }
  if (test.rounds != Test::Rounds::kPages) return 1;
  const double once = std::max(pages("kvrail", 1).round.seconds, 1e-6);
  const auto passes = static_cast<std::uint64_t>(std::ceil(settings_.round_ms / 1e3 / once));
  return std::clamp<std::uint64_t>(passes, 1, kMaxPasses);
}

Round SourceSide::one_round(const Test& test, const std::string& contender, std::uint64_t passes) {
  if (test.rounds == Test::Rounds::kMessages) return messages(contender, settings_.messages);
  return pages(contender, passes).round;
}

void SourceSide::measure(const Test& test, const Scene& scene, Progress& progress,
                         Results& results) {
  const std::uint64_t passes = warm_up(test, scene);
  const PagePlan& plan = stage_.plan();
  Case shape;
  shape.test = test.name;
  shape.layout = to_string(scene.layout);
  shape.page_bytes = plan.pages.front().size_bytes;
  shape.pages = static_cast<std::uint32_t>(plan.pages.size());
  shape.list_pages = plan.list_pages();
  if (test.rounds == Test::Rounds::kMessages) {
    shape.messages = settings_.messages;
  } else {
    shape.passes = passes;
  }
  const std::size_t first = results.cases.size();
  for (const std::string& name : scene.contenders) {
    results.cases.push_back(shape);
    results.cases.back().contender = name;
  }
  for (std::uint32_t i = 0; i < settings_.rounds; ++i) {
    for (std::size_t k = 0; k < scene.contenders.size(); ++k) {
      const std::string& name = scene.contenders[k];
      results.cases[first + k].rounds.push_back(one_round(test, name, passes));
      progress.step(fmt::format("{} of {} by {}", test.name, bytes_text(shape.page_bytes), name));
    }
  }
}

void SourceSide::measure_signals(const Test& test, Progress& progress, Results& results) {
  const std::size_t layers = stage_.request()->prefill.model.layers;
  const std::uint64_t requests = std::clamp<std::uint64_t>(settings_.messages / layers, 1, 1000);
  const bool same_clock =
      environment_.at("source").at("host") == environment_.at("target").at("host");
  pages("messenger", 1);
  for (std::uint32_t i = 0; i < settings_.rounds; ++i) {
    const Passes passes = pages("messenger", requests);
    add_signal_times(passes.sent.layers, layers, passes.arrived.last_arrival_ns, same_clock,
                     results.signals);
    progress.step(test.name);
  }
}

SourceSide::Passes SourceSide::pages(const std::string& contender, std::uint64_t passes) {
  Transport& transport = stage_.contender(contender);
  channel_.send({{"do", "round"}, {"contender", contender}, {"passes", passes}});
  const Json armed = channel_.receive();
  Passes result;
  Round& round = result.round;
  round.operations = passes * stage_.plan().pages.size();
  round.bytes = passes * stage_.plan().bytes();
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  result.sent = transport.send(passes, armed);
  const Json word = next_word(transport);
  round.seconds = seconds_since(start);
  round.source_cpu_s = cpu_seconds() - cpu_before;
  round.target_cpu_s = word.at("cpu_s");
  round.writes = result.sent.writes;
  word.at("request_to_ready_us").get_to(result.arrived.request_to_ready_us);
  word.at("last_arrival_ns").get_to(result.arrived.last_arrival_ns);
  round.latencies_us = std::move(result.sent.list_latencies_us);
  if (round.latencies_us.empty()) round.latencies_us = result.arrived.request_to_ready_us;
  require_right_bytes(transport, contender);
  return result;
}

Round SourceSide::messages(const std::string& contender, std::uint32_t count) {
  Transport& transport = stage_.contender(contender);
  PatternMemory& memory = stage_.memory();
  const std::uint64_t echo_offset = stage_.plan().echo_offset();
  const auto [source_offset, target_offset, size_bytes] = stage_.plan().pages.front();
  memory.clear(echo_offset, size_bytes);
  channel_.send({{"do", "messages"},
                 {"contender", contender},
                 {"count", count},
                 {"armed", transport.arm_ping(count)}});
  const Json armed = channel_.receive();
  Round round;
  round.operations = count;
  round.writes = count;
  round.bytes = count * size_bytes;
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  round.latencies_us = transport.ping(count, armed);
  round.seconds = seconds_since(start);
  round.source_cpu_s = cpu_seconds() - cpu_before;
  round.target_cpu_s = next_word(transport).at("cpu_s");
  require_right_bytes(transport, contender);
  const std::string fault = memory.check_range(echo_offset, source_offset, size_bytes);
  if (!fault.empty()) {
    throw Error(ErrorCode::kFabric, fmt::format("{}: the answer has {}", contender, fault));
  }
  return round;
}

// Of the target, which may need our progress for it.
Json SourceSide::next_word(Transport& transport) {
  if (transport.needs_progress()) {
    while (!channel_.readable()) transport.progress();
  }
  return channel_.receive();
}

void SourceSide::require_right_bytes(Transport& transport, const std::string& contender) {
  const std::string fault = next_word(transport).at("fault");
  if (!fault.empty()) throw Error(ErrorCode::kFabric, fmt::format("{}: {}", contender, fault));
}

}  // namespace kvrail::perf

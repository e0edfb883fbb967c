#include "perf/engine_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "kvrail/error.h"
#include "perf/host.h"
#include "perf/introduce.h"
#include "perf/kvrail_echo.h"
#include "perf/outcome.h"

namespace kvrail::perf {
namespace {

using Clock = std::chrono::steady_clock;

TransferEngineOptions engine_options(const EnginePair::Settings& settings, std::uint32_t first) {
  TransferEngineOptions options;
  options.provider = "scripted";
  for (std::uint32_t nic = first; nic < first + settings.rails; ++nic) {
    options.device_groups[0].nics.push_back(fmt::format("scripted{}", nic));
  }
  options.device_groups[0].cores = settings.cores;
  options.submission_queue_length = std::max(options.submission_queue_length, settings.depth);
  return options;
}

// What the callbacks of a round's counters share.
struct Arrivals {
  explicit Arrivals(std::size_t peers) : missing(peers) {}

  std::atomic<std::size_t> missing;
  Outcome outcome;
};

}  // namespace

EnginePair::EnginePair(const Settings& settings, const PagePlan& plan, const PatternMemory& source,
                       PatternMemory& target)
    : settings_(settings),
      plan_(plan),
      runs_(plan),
      target_memory_(target),
      source_(engine_options(settings, 0)),
      target_(engine_options(settings, settings.rails)),
      from_(source_.register_memory(kPerfGroup, source.data(), source.size_bytes())),
      to_(target_.register_memory(kPerfGroup, target.data(), target.size_bytes())) {
  for (std::uint32_t i = 0; i < settings.peers; ++i) add_peer(i);
}

void EnginePair::add_peer(std::uint32_t number) {
  const Introduced peers = introduce(source_, target_, fmt::format("peer {}", number));
  target_peers_.push_back(peers.source);
  Route route{peers.target, {}};
  route.list.source = from_.id();
  route.list.target = source_.import_region(peers.target, to_.descriptor());
  routes_.push_back(std::move(route));
}

std::vector<std::uint64_t> EnginePair::units_by_peer(std::uint64_t passes) const {
  std::vector<std::uint64_t> units(routes_.size());
  for (std::uint64_t list = 0; list < passes * runs_.lists.size(); ++list) {
    for (const WriteRun& run : runs_.lists[list % runs_.lists.size()]) {
      units[list % units.size()] += run.units;
    }
  }
  return units;
}

Round EnginePair::round(std::uint64_t passes) {
  target_memory_.clear();
  const auto units = units_by_peer(passes);
  const auto arrivals = std::make_shared<Arrivals>(routes_.size());
  auto arrived = arrivals->outcome.future();
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    if (units[i] == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "there are more peers than lists: raise --pages, or lower --list-pages");
    }
    routes_[i].list.counter = target_.take_counter(target_peers_[i], kPerfGroup);
    target_.expect(target_peers_[i], kPerfGroup, routes_[i].list.counter, units[i],
                   [arrivals](const Status& status, const CounterReport&) {
                     const bool is_last =
                         arrivals->missing.fetch_sub(1, std::memory_order_relaxed) == 1;
                     if (!status.ok() || is_last) arrivals->outcome.set(status);
                   });
  }
  Round round;
  round.operations = passes * plan_.pages.size();
  round.bytes = passes * plan_.bytes();
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  const SendReport sent =
      std::make_shared<KvrailFlow>(source_, routes_, runs_)->run(passes, settings_.depth);
  wait_for(arrived, "the pages");
  round.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  round.source_cpu_s = cpu_seconds() - cpu_before;
  round.writes = sent.writes;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    target_.release_counter(target_peers_[i], kPerfGroup, routes_[i].list.counter);
  }
  if (!settings_.moves_bytes) return round;
  const std::string fault = target_memory_.check_target(plan_);
  if (!fault.empty()) throw Error(ErrorCode::kFabric, fault);
  return round;
}

}  // namespace kvrail::perf

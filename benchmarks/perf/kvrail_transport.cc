#include "perf/kvrail_transport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "kvrail/error.h"
#include "perf/outcome.h"

namespace kvrail::perf {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

TransferEngineOptions engine_options(const Settings& settings, const LocalSettings& local) {
  TransferEngineOptions options;
  options.provider = settings.provider;
  options.bind_address = local.bind_address;
  options.submission_queue_length = std::max(options.submission_queue_length, settings.depth);
  DeviceGroupOptions& group = options.device_groups[0];
  if (!settings.nic.empty()) group.nics = {settings.nic};
  group.rails_per_nic = settings.rails;
  if (local.core >= 0) group.cores = {static_cast<unsigned>(local.core)};
  return options;
}

std::uint32_t units_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + kMaxUnitBytes - 1) / kMaxUnitBytes);
}

}  // namespace

// One send(). Shared with the callbacks: they may outlive a send() that failed.
struct KvrailTransport::Flow {
  PeerId peer;
  WriteList list;  // without runs
  const std::vector<std::vector<WriteRun>>* lists = nullptr;
  std::uint64_t total = 0;
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> writes{0};
  std::vector<double> latencies_us;  // of the submissions, in the order of their completions
  Outcome outcome;
};

KvrailTransport::KvrailTransport(const Settings& settings, const LocalSettings& local)
    : depth_(settings.depth), engine_(engine_options(settings, local)) {}

std::string KvrailTransport::provider() const {
  const FabricStats stats = engine_.stats();
  return stats.peers.empty() ? std::string() : stats.peers.front().provider;
}

void KvrailTransport::connect(Channel& channel, Role role) {
  PeerOptions options;
  options.name = role == Role::kSource ? "target" : "source";
  if (role == Role::kSource) {
    channel.send({{"offer", to_json(engine_.offer())}});
    const auto answer = bytes_from_json(channel.receive().at("answer"));
    auto introduced = engine_.connect_peer(answer, options);
    peer_ = introduced.peer;
    channel.send({{"confirm", to_json(introduced.reply)}});
  } else {
    const auto offer = bytes_from_json(channel.receive().at("offer"));
    auto introduced = engine_.accept_peer(offer, options);
    peer_ = introduced.peer;
    channel.send({{"answer", to_json(introduced.reply)}});
    engine_.confirm_peer(peer_, bytes_from_json(channel.receive().at("confirm")));
  }
}

WriteRun KvrailTransport::page_run(std::size_t page) const {
  const PagePlan::Page& place = plan_.pages[page];
  return {place.source_offset, place.target_offset, place.size_bytes, units_of(place.size_bytes)};
}

void KvrailTransport::open(const PagePlan& plan, const KvPlan*, const PatternMemory& memory,
                           Channel& channel) {
  plan_ = plan;
  lists_.clear();
  units_ = 0;
  std::size_t page = 0;
  for (const std::uint32_t end : plan.list_ends) {
    auto& list = lists_.emplace_back();
    for (; page < end; ++page) {
      list.push_back(page_run(page));
      units_ += list.back().units;
    }
  }
  region_ = engine_.register_memory(kPerfGroup, memory.data(), memory.size_bytes());
  channel.send({{"region", to_json(region_.descriptor())}});
  remote_ = engine_.import_region(peer_, bytes_from_json(channel.receive().at("region")));
}

Json KvrailTransport::arm(std::uint64_t passes) {
  counter_ = engine_.take_counter(peer_, kPerfGroup);
  const auto outcome = std::make_shared<Outcome>();
  arrived_ = outcome->future();
  engine_.expect(peer_, kPerfGroup, counter_, passes * units_,
                 [outcome](const Status& status, const CounterReport&) { outcome->set(status); });
  return {{"counter", counter_.value()}};
}

void KvrailTransport::close() {
  echo_.reset();
  region_ = {};
}

ArrivalReport KvrailTransport::wait_arrived() {
  wait_for(arrived_, "the pages");
  engine_.release_counter(peer_, kPerfGroup, counter_);
  return {};
}

void KvrailTransport::submit_next(TransferEngine& engine, const std::shared_ptr<Flow>& flow) {
  const std::uint64_t index = flow->next.fetch_add(1, std::memory_order_relaxed);
  if (index >= flow->total) return;
  WriteList list = flow->list;
  list.runs = (*flow->lists)[index % flow->lists->size()];
  const auto submitted = Clock::now();
  const Status status =
      engine.submit(flow->peer, std::move(list), FullQueue::kRefuse,
                    [&engine, flow, submitted](const Status& status, const WriteReport& report) {
                      if (!status.ok()) return flow->outcome.set(status);
                      flow->writes.fetch_add(report.writes_posted, std::memory_order_relaxed);
                      const std::uint64_t done = flow->done.fetch_add(1, std::memory_order_relaxed);
                      flow->latencies_us[done] = microseconds(Clock::now() - submitted);
                      if (done + 1 == flow->total) return flow->outcome.set({});
                      submit_next(engine, flow);
                    });
  if (!status.ok()) flow->outcome.set(status);
}

SendReport KvrailTransport::send(std::uint64_t passes, const Json& armed) {
  const auto flow = std::make_shared<Flow>();
  flow->peer = peer_;
  flow->list.source = region_.id();
  flow->list.target = remote_;
  flow->list.counter = CounterId(armed.at("counter").get<CounterId::rep>());
  flow->lists = &lists_;
  flow->total = passes * lists_.size();
  flow->latencies_us.resize(flow->total);
  auto outcome = flow->outcome.future();
  for (std::uint32_t i = 0; i < depth_; ++i) submit_next(engine_, flow);
  wait_for(outcome, "the completions");
  return {flow->writes.load(std::memory_order_relaxed), std::move(flow->latencies_us), {}};
}

Json KvrailTransport::arm_ping(std::uint32_t count) {
  WriteList list;
  list.source = region_.id();
  list.target = remote_;
  list.runs = {page_run(0)};
  echo_ = std::make_shared<KvrailEcho>(engine_, peer_, std::move(list), count);
  return echo_->arm_ping();
}

Json KvrailTransport::arm_pong(std::uint32_t count, const Json& armed_source) {
  WriteList list;
  list.source = region_.id();
  list.target = remote_;
  list.runs = {page_run(0)};
  list.runs[0].source_offset = plan_.pages[0].target_offset;
  list.runs[0].target_offset = plan_.echo_offset();
  echo_ = std::make_shared<KvrailEcho>(engine_, peer_, std::move(list), count);
  return echo_->arm_pong(armed_source);
}

std::vector<double> KvrailTransport::ping(std::uint32_t, const Json& armed_target) {
  return echo_->ping(armed_target);
}

void KvrailTransport::pong(std::uint32_t) { echo_->pong(); }

}  // namespace kvrail::perf

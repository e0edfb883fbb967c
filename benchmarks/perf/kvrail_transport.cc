#include "perf/kvrail_transport.h"

#include <utility>

#include "kvrail/error.h"
#include "perf/engine_options.h"
#include "perf/outcome.h"

namespace kvrail::perf {
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

void KvrailTransport::open(const PagePlan& plan, const KvPlan*, const PatternMemory& memory,
                           Channel& channel) {
  plan_ = plan;
  runs_ = std::make_unique<RunLists>(plan);
  region_ = engine_.register_memory(kPerfGroup, memory.data(), memory.size_bytes());
  channel.send({{"region", to_json(region_.descriptor())}});
  remote_ = engine_.import_region(peer_, bytes_from_json(channel.receive().at("region")));
}

Json KvrailTransport::arm(std::uint64_t passes) {
  counter_ = engine_.take_counter(peer_, kPerfGroup);
  const auto outcome = std::make_shared<Outcome>();
  arrived_ = outcome->future();
  engine_.expect(peer_, kPerfGroup, counter_, passes * runs_->units,
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

SendReport KvrailTransport::send(std::uint64_t passes, const Json& armed) {
  WriteList route;
  route.source = region_.id();
  route.target = remote_;
  route.counter = CounterId(armed.at("counter").get<CounterId::rep>());
  std::vector<Route> routes{{peer_, std::move(route)}};
  return std::make_shared<KvrailFlow>(engine_, std::move(routes), *runs_)->run(passes, depth_);
}

Json KvrailTransport::arm_ping(std::uint32_t count) {
  WriteList list;
  list.source = region_.id();
  list.target = remote_;
  list.runs = {runs_->lists[0][0]};
  echo_ = std::make_shared<KvrailEcho>(engine_, peer_, std::move(list), count);
  return echo_->arm_ping();
}

Json KvrailTransport::arm_pong(std::uint32_t count, const Json& armed_source) {
  WriteList list;
  list.source = region_.id();
  list.target = remote_;
  list.runs = {runs_->lists[0][0]};
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

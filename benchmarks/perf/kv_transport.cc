#include "perf/kv_transport.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <thread>
#include <utility>
#include <variant>

#include "kvrail/error.h"
#include "perf/engine_options.h"
#include "perf/host.h"

namespace kvrail::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 100;
constexpr std::uint32_t kNeverNapUs = 1'000'000;

MessengerOptions messenger_options(const Settings& settings, const LocalSettings& local,
                                   Role role) {
  MessengerOptions options;
  options.fabric = engine_options(settings, local);
  options.node_name = role == Role::kSource ? "source" : "target";
  if (role == Role::kSource) {
    const bool is_v6 = local.bind_address.find(':') != std::string::npos;
    options.listen = is_v6 ? "[" + local.bind_address + "]:0" : local.bind_address + ":0";
    // What crosses is a pattern.
    options.listen_beyond_loopback = true;
    if (settings.watcher == "worker") options.watcher = WatcherPlace::kWorker;
    if (local.watcher_core >= 0) options.watcher_spin_us = kNeverNapUs;
  }
  return options;
}

// Why a request cannot go on, if that is what the event says.
const Status* fault_of(const Event& event) {
  const Status* fault = nullptr;
  if (const auto* lost = std::get_if<PeerLostEvent>(&event)) fault = &lost->reason;
  if (const auto* failed = std::get_if<FailedEvent>(&event)) fault = &failed->reason;
  if (const auto* cancelled = std::get_if<CancelledEvent>(&event)) fault = &cancelled->reason;
  if (const auto* released = std::get_if<PagesReleasedEvent>(&event)) {
    if (!released->result.ok()) fault = &released->result;
  }
  return fault;
}

[[noreturn]] void refuse_messages() {
  throw Error(ErrorCode::kMalformed, "requests are no messages");
}

}  // namespace

KvTransport::KvTransport(const Settings& settings, const LocalSettings& local)
    : settings_(settings), local_(local) {}

KvTransport::~KvTransport() { close(); }

void KvTransport::connect(Channel& channel, Role role) {
  channel_ = &channel;
  role_ = role;
}

void KvTransport::close() {
  counter_.reset();
  messenger_.reset();
  events_.reset();
  waiting_.clear();
  kv_ = nullptr;
}

KvLayout KvTransport::register_ranks(const KvCacheOptions& options, const PatternMemory& memory) {
  std::vector<RankMemory> ranks;
  std::uint64_t offset = 0;
  for (std::uint32_t rank = 0; rank < rank_count(options); ++rank) {
    const std::uint64_t size = kv_bytes(options, RankIndex(rank));
    ranks.push_back({messenger_->register_memory(DeviceGroupId{0}, memory.data() + offset, size),
                     DeviceGroupId{0}});
    offset += size;
  }
  return make_kv_layout(options, ranks);
}

void KvTransport::open(const PagePlan&, const KvPlan* kv, const PatternMemory& memory,
                       Channel& channel) {
  close();
  if (kv == nullptr) throw Error(ErrorCode::kMalformed, "there is no request to send");
  kv_ = kv;
  events_ = std::make_unique<EventQueue>();
  messenger_ = std::make_unique<KvMessenger>(messenger_options(settings_, local_, role_));
  if (role_ == Role::kSource) {
    // start() starts the watcher's thread, which stays where it began.
    if (local_.watcher_core >= 0) pin_to(local_.watcher_core);
    messenger_->start(register_ranks(kv->prefill, memory), events_->prefill(), nullptr);
    counter_ = messenger_->make_layer_counter();
    const int pass_core = local_.pass_core >= 0 ? local_.pass_core : local_.core;
    if (pass_core >= 0) pin_to(pass_core);
    channel.send({{"messenger", messenger_->listen_address()}});
    peer_ = take<PeerAttachedEvent>().peer;
  } else {
    messenger_->start(register_ranks(kv->decode, memory), nullptr, events_->decode());
    peer_ = messenger_->connect(channel.receive().at("messenger"));
  }
}

template <class Wanted>
Wanted KvTransport::take() {
  const auto deadline = Clock::now() + kPatience;
  while (true) {
    while (auto event = events_->poll()) {
      if (const Status* fault = fault_of(*event)) throw Error(fault->code(), fault->text());
      waiting_.push_back(std::move(*event));
    }
    // The next request may come before the end of the one before it.
    for (auto event = waiting_.begin(); event != waiting_.end(); ++event) {
      auto* wanted = std::get_if<Wanted>(&*event);
      if (wanted == nullptr) continue;
      Wanted found = std::move(*wanted);
      waiting_.erase(event);
      return found;
    }
    if (Clock::now() > deadline) throw Error(ErrorCode::kDeadline, "a request did not end");
    pollfd entry{events_->descriptor(), POLLIN, 0};
    ::poll(&entry, 1, kPollMs);
  }
}

Json KvTransport::arm(std::uint64_t passes) {
  passes_ = passes;
  return Json::object();
}

SendReport KvTransport::send(std::uint64_t passes, const Json&) {
  // The time that is measured has begun.
  channel_->send({{"go", passes}});
  SendReport report;
  for (std::uint64_t pass = 0; pass < passes; ++pass) send_request(report);
  return report;
}

void KvTransport::send_request(SendReport& report) {
  const RequestId id = take<PrefillRequestedEvent>().request.id;
  messenger_->bind_pages(id, kv_->source_pages, 0);
  const std::uint32_t layers = kv_->prefill.model.all_layers();
  std::vector<LayerTimes> times;
  for (const TokenRange chunk : kv_->chunks) {
    StepPlan plan;
    plan.chunks = {{id, chunk}};
    counter_->start(messenger_->begin_step(*counter_, std::move(plan)));
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      // A GPU would be at work, and leave the core to the watcher.
      if (kv_->layer_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(kv_->layer_us));
      times.push_back({monotonic_ns()});
      counter_->signal();
    }
  }
  const auto sent = take<PagesReleasedEvent>().report;
  report.writes += sent.writes;
  // Of several chunks, not all layers have something to send.
  if (sent.layers.size() != times.size()) return;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const LayerTiming& timing = sent.layers[i];
    times[i].seen_ns = timing.seen_ns;
    times[i].first_post_ns = timing.first_post_ns;
    times[i].last_completion_ns = timing.last_completion_ns;
  }
  report.layers.insert(report.layers.end(), times.begin(), times.end());
}

ArrivalReport KvTransport::wait_arrived() {
  channel_->receive().at("go");
  ArrivalReport report;
  for (std::uint64_t pass = 0; pass < passes_; ++pass) {
    DecodeRequest request;
    request.external_id = fmt::format("request {}", ++requests_);
    request.prompt_tokens = kv_->tokens + 1;
    request.pages = kv_->target_pages;
    const auto asked = Clock::now();
    messenger_->request_prefill(peer_, std::move(request));
    const auto arrived = take<ReadyEvent>().report;
    const std::chrono::duration<double, std::micro> time = Clock::now() - asked;
    report.request_to_ready_us.push_back(time.count());
    report.last_arrival_ns.push_back(arrived.last_arrival_ns);
  }
  return report;
}

Json KvTransport::arm_ping(std::uint32_t) { refuse_messages(); }
Json KvTransport::arm_pong(std::uint32_t, const Json&) { refuse_messages(); }
std::vector<double> KvTransport::ping(std::uint32_t, const Json&) { refuse_messages(); }
void KvTransport::pong(std::uint32_t) { refuse_messages(); }

}  // namespace kvrail::perf

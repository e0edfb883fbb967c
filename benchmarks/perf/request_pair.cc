#include "perf/request_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "kvrail/error.h"
#include "kvrail/kv_builders.h"
#include "perf/host.h"

namespace kvrail::perf {
namespace {

constexpr std::uint32_t kLayers = 4;
constexpr std::uint32_t kPageTokens = 16;
constexpr std::uint32_t kRequestPages = 2;
constexpr std::uint32_t kTokens = kRequestPages * kPageTokens;
// Of a token in a layer, so that a page of a layer has 8 KiB.
constexpr std::uint32_t kTokenBytes = 512;

KvCacheOptions cache_options(std::uint32_t slots) {
  KvCacheOptions options;
  options.model.name = "scaling";
  options.model.layers = kLayers;
  options.model.element_bytes = 2;
  options.model.latent_size = kTokenBytes / options.model.element_bytes;
  options.page_tokens = kPageTokens;
  options.page_count = slots * kRequestPages;
  return options;
}

std::unique_ptr<PatternMemory> make_memory(std::uint32_t slots) {
  return std::make_unique<PatternMemory>(kv_bytes(cache_options(slots), RankIndex(0)));
}

MessengerOptions messenger_options(const std::string& provider, const char* name) {
  MessengerOptions options;
  options.fabric.provider = provider;
  options.node_name = name;
  options.listen = "127.0.0.1:0";
  return options;
}

}  // namespace

RequestPair::Run::Run(std::uint32_t count, std::uint32_t most_open)
    : requests(count), in_flight(most_open) {
  latencies_us.reserve(count);
}

RequestPair::RequestPair(const std::string& provider, std::uint32_t slots)
    : slots_(slots), source_memory_(make_memory(slots)), target_memory_(make_memory(slots)) {
  source_memory_->fill();
  prefill_ = std::make_unique<KvMessenger>(messenger_options(provider, "prefill"));
  layout_ = open(*prefill_, *source_memory_);
  prefill_->start(layout_, this, nullptr);
  decode_ = std::make_unique<KvMessenger>(messenger_options(provider, "decode"));
  decode_->start(open(*decode_, *target_memory_), nullptr, this);
  peer_ = decode_->connect(prefill_->listen_address());
}

std::uint64_t RequestPair::request_bytes() {
  return std::uint64_t{kLayers} * kTokens * kTokenBytes;
}

KvLayout RequestPair::open(KvMessenger& messenger, const PatternMemory& memory) const {
  const DeviceGroupId group{0};
  const RankMemory rank{messenger.register_memory(group, memory.data(), memory.size_bytes()),
                        group};
  return make_kv_layout(cache_options(slots_), std::span(&rank, 1));
}

// A slot's pages lie apart, and elsewhere at the target.
RequestPages RequestPair::pages_of(std::uint32_t slot, Side side) const {
  const std::uint32_t first = side == Side::kSource ? slot : slots_ - 1 - slot;
  RequestPages pages;
  auto& table = pages.by_group.emplace_back();
  for (std::uint32_t i = 0; i < kRequestPages; ++i) table.emplace_back(first + i * slots_);
  return pages;
}

Round RequestPair::round(std::uint32_t requests, std::uint32_t in_flight) {
  target_memory_->clear();
  auto run = std::make_unique<Run>(requests, std::min(in_flight, slots_));
  run->free_slots.resize(slots_);
  std::iota(run->free_slots.begin(), run->free_slots.end(), 0);
  auto over = run->outcome.future();
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    run_ = std::move(run);
    while (ask_next()) {
    }
  }
  wait_for(over, "a request's end");
  Round round;
  round.source_cpu_s = cpu_seconds() - cpu_before;
  {
    const std::lock_guard lock(mutex_);
    run = std::move(run_);
  }
  round.seconds = std::chrono::duration<double>(run->last_ready - start).count();
  round.operations = requests;
  round.bytes = requests * request_bytes();
  round.writes = run->writes;
  round.latencies_us = std::move(run->latencies_us);
  const std::string fault = check_pages(std::min(requests, slots_));
  if (!fault.empty()) throw Error(ErrorCode::kFabric, fault);
  return round;
}

bool RequestPair::ask_next() {
  if (run_->asked == run_->requests || run_->open.size() == run_->in_flight) return false;
  const std::uint32_t slot = run_->free_slots.front();
  run_->free_slots.pop_front();
  ++run_->asked;
  DecodeRequest request;
  request.external_id = fmt::format("request {}", ++names_);
  request.prompt_tokens = kTokens + 1;
  request.pages = pages_of(slot, Side::kTarget);
  request.payload.resize(sizeof slot);
  std::memcpy(request.payload.data(), &slot, sizeof slot);
  const auto now = Clock::now();
  run_->open.emplace(decode_->request_prefill(peer_, std::move(request)), Asked{slot, now});
  return true;
}

void RequestPair::on_prefill_request(const PrefillRequest& request) {
  std::uint32_t slot = 0;
  std::memcpy(&slot, request.payload.data(), sizeof slot);
  prefill_->bind_pages(request.id, pages_of(slot, Side::kSource), kTokens);
}

void RequestPair::on_ready(RequestId request, const ReceiveReport&) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (!run_) return;
  const auto asked = run_->open.extract(request).mapped();
  run_->latencies_us.push_back(std::chrono::duration<double, std::micro>(now - asked.at).count());
  run_->free_slots.push_back(asked.slot);
  run_->last_ready = now;
  ask_next();
  end_if_done();
}

void RequestPair::on_pages_released(RequestId, const Status& result,
                                    const kvrail::SendReport& report) {
  if (!result.ok()) return fail(result);
  const std::lock_guard lock(mutex_);
  if (!run_) return;
  run_->writes += report.writes;
  ++run_->released;
  end_if_done();
}

void RequestPair::end_if_done() {
  if (run_->released == run_->requests && run_->latencies_us.size() == run_->requests) {
    run_->outcome.set({});
  }
}

void RequestPair::on_cancelled(RequestId, const Status& reason) { fail(reason); }

void RequestPair::on_failed(RequestId, const Status& reason, bool,
                            const std::vector<MissingPages>&) {
  fail(reason);
}

void RequestPair::on_peer_lost(PeerId, const std::string&, const Status& reason) { fail(reason); }

void RequestPair::fail(const Status& reason) {
  const std::lock_guard lock(mutex_);
  if (run_) run_->outcome.set(reason);
}

std::string RequestPair::check_pages(std::uint32_t used_slots) const {
  for (const TensorPlacement& placement : layout_.ranks[0].groups[0].placements) {
    const auto place = [&](PageIndex page) {
      return placement.base_offset_bytes + page.value() * placement.page_stride_bytes;
    };
    for (std::uint32_t slot = 0; slot < used_slots; ++slot) {
      const auto sources = pages_of(slot, Side::kSource).by_group[0];
      const auto targets = pages_of(slot, Side::kTarget).by_group[0];
      for (std::uint32_t i = 0; i < kRequestPages; ++i) {
        std::string fault = target_memory_->check_range(place(targets[i]), place(sources[i]),
                                                        placement.page_stride_bytes);
        if (!fault.empty()) return fault;
      }
    }
  }
  return {};
}

}  // namespace kvrail::perf

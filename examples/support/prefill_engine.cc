#include "support/prefill_engine.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "support/send_event.h"

namespace mock_engine {
namespace {

// Times of passes are kept for the reports of requests that are still being sent.
constexpr std::size_t kTimesKept = 256;

}  // namespace

using kvrail::RequestId;
using kvrail::Status;

PrefillEngine::PrefillEngine(kvrail::KvMessenger& messenger, const kvrail::KvLayout& layout,
                             Ranks& ranks, PrefillEngineOptions options, EventSink events)
    : messenger_(messenger),
      layout_(layout),
      ranks_(ranks),
      options_(options),
      events_(std::move(events)),
      pools_(layout, kvrail::DpRank(0)) {}

PrefillEngine::~PrefillEngine() { stop(); }

void PrefillEngine::start() {
  counter_ = messenger_.make_layer_counter();
  runner_ = std::make_unique<PassRunner>(
      ranks_, layout_.layer_count, counter_, options_.time_per_layer,
      [this](const Pass& pass, const PassTimes& times) { pass_done(pass, times); });
  scheduler_ = std::thread([this] { schedule(); });
}

void PrefillEngine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (scheduler_.joinable()) scheduler_.join();
  runner_.reset();
}

void PrefillEngine::add(RequestId id, std::string peer_name, PromptPtr prompt) {
  {
    const std::lock_guard lock(mutex_);
    const auto [job, is_new] = jobs_.try_emplace(id);
    job->second.peer_name = std::move(peer_name);
    if (!is_new) return;  // expected; its decode node has now asked
    job->second.id = id;
    job->second.prompt = std::move(prompt);
    waiting_.push_back(id);
  }
  changed_.notify_all();
}

void PrefillEngine::expect(PromptPtr prompt) {
  const RequestId id = messenger_.expect_request(prompt->external_id());
  add(id, "", std::move(prompt));
}

void PrefillEngine::on_prefill_request(const kvrail::PrefillRequest& request) {
  try {
    auto prompt = std::make_shared<const Prompt>(
        Prompt::decode_payload(request.external_id, request.prompt_tokens, request.payload));
    add(request.id, request.peer_name, prompt);
    if (const kvrail::CacheGroup* group = too_small_pool(layout_.groups, *prompt)) {
      const kvrail::TokenRange entries = kept_entries(*group, *prompt);
      messenger_.reject(request.id, fmt::format("needs {} pages, but the prefill node's pool has {}"
                                                ": raise --pool-pages or --memory-gib there",
                                                entries.end - entries.first, group->page_count));
    }
  } catch (const std::invalid_argument& error) {
    messenger_.reject(request.id, error.what());
  }
}

void PrefillEngine::on_cancelled(RequestId request, const Status&) {
  const std::lock_guard lock(mutex_);
  if (const auto job = jobs_.find(request); job != jobs_.end()) job->second.cancelled = true;
}

void PrefillEngine::on_pages_released(RequestId request, const Status& result,
                                      const kvrail::SendReport& report) {
  {
    const std::lock_guard lock(mutex_);
    const auto job = jobs_.find(request);
    if (job == jobs_.end()) return;
    job->second.released = true;
    job->second.result = result;
    job->second.report = report;
    if (job->second.finished()) finish(job->second);
  }
  changed_.notify_all();
}

void PrefillEngine::on_peer_attached(kvrail::PeerId, const std::string& peer_name) {
  const std::lock_guard lock(mutex_);
  ++peers_;
  events_({{"event", "connected"}, {"peer", peer_name}});
}

void PrefillEngine::on_peer_lost(kvrail::PeerId, const std::string& peer_name,
                                 const Status& reason) {
  const std::lock_guard lock(mutex_);
  --peers_;
  events_({{"event", "lost_peer"}, {"peer", peer_name}, {"reason", reason.text()}});
}

void PrefillEngine::finish(PrefillJob& job) {
  if (job.held) pools_.release(*job.held);
  ++ended_;
  events_(send_event(job, times_));
  jobs_.erase(job.id);
}

PrefillEngine::Progress PrefillEngine::progress() const {
  const std::lock_guard lock(mutex_);
  return {.requests_ended = ended_,
          .requests_open = static_cast<std::uint32_t>(jobs_.size()),
          .peers = peers_,
          .pages_free = pools_.pages_free(),
          .page_count = pools_.page_count(),
          .all_free = pools_.all_free()};
}

void PrefillEngine::pass_done(const Pass& pass, const PassTimes& times) {
  const bool whole = times.failure.empty();
  if (!whole) messenger_.fail_step(*counter_, pass.step, times.failure);
  for (const PassChunk& chunk : pass.chunks) {
    const bool last = chunk.tokens.end == chunk.prompt->prefill_tokens();
    if (whole && last && chunk.slot) messenger_.context_ready(chunk.request);
  }
  {
    const std::lock_guard lock(mutex_);
    if (!whole) failed_ = true;
    --passes_in_flight_;
    times_.emplace(pass.step, times);
    if (times_.size() > kTimesKept) times_.erase(times_.begin());
    for (const PassChunk& chunk : pass.chunks) {
      PrefillJob& job = jobs_.at(chunk.request);
      if (whole) pools_.publish(*job.prompt, *job.held, chunk.tokens.end, [](auto&&...) {});
      --job.passes_in_flight;
      if (job.finished()) finish(job);
    }
  }
  changed_.notify_all();
}

}  // namespace mock_engine

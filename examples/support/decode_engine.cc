#include "support/decode_engine.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace mock_engine {

using kvrail::ErrorCode;
using kvrail::Status;

DecodeEngine::DecodeEngine(kvrail::KvMessenger& messenger, kvrail::EventQueue& queue,
                           const kvrail::KvLayout& layout, Ranks& ranks,
                           DecodeEngineOptions options, EventSink events)
    : messenger_(messenger),
      queue_(queue),
      ranks_(ranks),
      options_(options),
      events_(std::move(events)),
      pages_(layout) {
  ranks_.poison_all();
}

bool DecodeEngine::run(const std::vector<PromptPtr>& prompts) {
  while (ended_ < prompts.size()) {
    while (start_next(prompts)) {
    }
    if (ended_ < prompts.size()) wait();
    while (const auto event = queue_.poll()) dispatch(*event);
    background_.run_finished();
  }
  const Event pages = pages_event();
  events_(pages);
  return all_well_ && pages["canary_bytes"] == 0 && pages_.all_free();
}

Event DecodeEngine::pages_event() {
  auto providers = Event::array();
  for (const kvrail::PeerStats& peer : messenger_.stats().fabric.peers) {
    providers.push_back(peer.provider);
  }
  return {{"event", "pages"},
          {"role", "decode"},
          {"free", pages_.pages_free()},
          {"count", pages_.page_count()},
          {"canary_bytes", check_all_pages()},
          {"providers", std::move(providers)}};
}

const DecodeEngine::Peer* DecodeEngine::choose_peer(std::uint32_t number) const {
  const auto count = static_cast<std::uint32_t>(peers_.size());
  const std::uint32_t first = route(number, options_.of, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Peer& peer = peers_[(first + i) % count];
    if (!peer.lost) return &peer;
  }
  return nullptr;
}

bool DecodeEngine::start_next(const std::vector<PromptPtr>& prompts) {
  if (started_ == prompts.size() || started_ - ended_ >= options_.concurrency) return false;
  auto job = std::make_shared<Job>();
  job->prompt = prompts[started_];
  const std::uint32_t number = started_ * options_.of + options_.index;
  const Peer* peer = choose_peer(number);
  if (peer == nullptr) {
    job->peer = peers_[route(number, options_.of, static_cast<std::uint32_t>(peers_.size()))];
    job->result =
        Status(ErrorCode::kPeerLost,
               fmt::format("prefill node {} was lost before the request was sent", job->peer.name));
    ++started_;
    end(*job);
    return true;
  }
  job->peer = *peer;
  auto held = pages_.take(*job->prompt);
  if (!held) return false;
  ++started_;
  job->held = std::move(*held);
  const kvrail::RequestPages evicted = pages_.forget_evicted(job->held);
  const auto has_pages = [](const PageTable& table) { return !table.empty(); };
  if (std::any_of(evicted.by_group.begin(), evicted.by_group.end(), has_pages)) {
    background_.post([this, evicted] { ranks_.poison(evicted); }, [this, job] { ask(job); });
  } else {
    ask(job);
  }
  return true;
}

void DecodeEngine::ask(const JobPtr& job) {
  kvrail::DecodeRequest request;
  request.external_id = job->prompt->external_id();
  request.prompt_tokens = job->prompt->prompt_tokens();
  request.cached_tokens = job->held.cached_tokens;
  request.pages = job->held.pages;
  request.context_slot = job->held.slot;
  request.payload = job->prompt->encode_payload();
  jobs_.emplace(messenger_.request_prefill(job->peer.id, std::move(request)), job);
}

void DecodeEngine::wait() {
  std::vector<pollfd> sources{{queue_.descriptor(), POLLIN, 0},
                              {background_.descriptor(), POLLIN, 0}};
  for (const int rank : ranks_.descriptors()) sources.push_back({rank, 0, 0});
  if (poll(sources.data(), sources.size(), -1) < 0 && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "poll");
  }
  if (const auto lost = ranks_.lost()) throw RankLost(*lost);
}

std::uint64_t DecodeEngine::check_all_pages() {
  std::uint64_t canary_bytes = 0;
  for (const kvrail::RequestPages& free : pages_.free_pages()) {
    canary_bytes += ranks_.count_not_poison(free);
  }
  for (const auto& [pages, slot] : pages_.free_slots()) {
    canary_bytes += ranks_.count_not_poison(pages, slot);
  }
  for (const DecodePages::CachedPage& cached : pages_.cached_pages()) {
    canary_bytes += ranks_.count_wrong(*cached.prompt, cached.tokens, cached.pages);
  }
  return canary_bytes;
}

}  // namespace mock_engine

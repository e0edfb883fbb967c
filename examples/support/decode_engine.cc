#include "support/decode_engine.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "support/prompt_pages.h"

namespace mock_engine {

using kvrail::ErrorCode;
using kvrail::PageIndex;
using kvrail::Status;

DecodeEngine::DecodeEngine(kvrail::KvMessenger& messenger, kvrail::EventQueue& queue,
                           KvCache& cache, DecodeEngineOptions options, EventSink events)
    : messenger_(messenger),
      queue_(queue),
      cache_(cache),
      options_(options),
      events_(std::move(events)),
      pool_(options.pool_pages) {
  for (std::uint32_t page = 0; page < options_.pool_pages; ++page) cache_.poison(PageIndex(page));
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
  return all_well_ && pages["canary_bytes"] == 0 && pages["free"] == pages["count"];
}

Event DecodeEngine::pages_event() const {
  auto providers = Event::array();
  for (const kvrail::PeerStats& peer : messenger_.stats().fabric.peers) {
    providers.push_back(peer.provider);
  }
  return {{"event", "pages"},
          {"role", "decode"},
          {"free", pool_.available()},
          {"count", pool_.page_count()},
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
  auto taken = take_pages(*job->prompt, pool_, cache_.page_tokens());
  if (!taken) return false;
  ++started_;
  job->pages = std::move(taken->pages);
  job->cached_tokens = taken->cached_tokens;

  // Pages that the prefix cache gave up still hold what was cached.
  PageTable evicted;
  for (std::size_t i = job->cached_tokens / cache_.page_tokens(); i < job->pages.size(); ++i) {
    if (cached_.erase(job->pages[i]) > 0) evicted.push_back(job->pages[i]);
  }
  if (evicted.empty()) {
    ask(job);
  } else {
    background_.post(
        [this, evicted] {
          for (const PageIndex page : evicted) cache_.poison(page);
        },
        [this, job] { ask(job); });
  }
  return true;
}

void DecodeEngine::ask(const JobPtr& job) {
  kvrail::DecodeRequest request;
  request.external_id = job->prompt->external_id();
  request.prompt_tokens = job->prompt->prompt_tokens();
  request.cached_tokens = job->cached_tokens;
  request.pages = {{job->pages}};
  request.payload = job->prompt->encode_payload();
  jobs_.emplace(messenger_.request_prefill(job->peer.id, std::move(request)), job);
}

void DecodeEngine::wait() {
  std::array<pollfd, 2> sources{
      {{queue_.descriptor(), POLLIN, 0}, {background_.descriptor(), POLLIN, 0}}};
  if (poll(sources.data(), sources.size(), -1) < 0 && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "poll");
  }
}

std::uint64_t DecodeEngine::check_all_pages() const {
  std::uint64_t canary_bytes = 0;
  for (std::uint32_t i = 0; i < pool_.page_count(); ++i) {
    const PageIndex page(i);
    if (pool_.is_free(page)) {
      canary_bytes += cache_.count_not_poison(page);
    } else if (const auto cached = cached_.find(page); cached != cached_.end()) {
      const std::uint32_t first = cached->second.index * cache_.page_tokens();
      const PageTable pages(cached->second.index + 1, page);
      canary_bytes +=
          cache_.count_wrong(*cached->second.prompt, {first, first + cache_.page_tokens()}, pages);
    }
  }
  return canary_bytes;
}

}  // namespace mock_engine

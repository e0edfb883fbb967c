#include "faults/decode_engine.h"

#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "faults/seed_prompt.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kHurryMs = 150;
constexpr std::int64_t kNsPerUs = 1000;

}  // namespace

void DecodeEngine::on_command(const std::string& verb, std::istringstream& rest) {
  if (verb == "connect") {
    std::string address;
    rest >> address;
    connect(address);
  } else if (verb == "round") {
    rest >> left_;
    in_round_ = true;
  } else if (verb == "abandon") {
    left_ = 0;
    in_round_ = false;
  } else if (verb == "hurry") {
    rest >> hurry_;
  }
}

void DecodeEngine::connect(const std::string& address) {
  if (peer_ && peer_address_ == address) return say("connected");
  peer_.reset();
  try {
    peer_ = node().messenger().connect(address);
    peer_address_ = address;
    say("connected");
  } catch (const Error& error) {
    say(fmt::format("refused {}", error.what()));
  }
}

void DecodeEngine::on_event(Event& event) {
  if (const auto* ready = std::get_if<ReadyEvent>(&event)) {
    on_ready(*ready);
  } else if (const auto* failed = std::get_if<FailedEvent>(&event)) {
    on_failed(*failed);
  } else if (const auto* quiescent = std::get_if<QuiescentEvent>(&event)) {
    on_quiescent(*quiescent);
  } else if (const auto* lost = std::get_if<PeerLostEvent>(&event)) {
    tally().add("decode_peer_lost");
    if (peer_ == lost->peer) {
      peer_.reset();
      say("lost");
    }
  }
}

bool DecodeEngine::work() {
  const std::int64_t now = now_ns();
  for (auto next = requests_.begin(); next != requests_.end();) {
    const auto at = next++;
    cancel_when_due(at->first, at->second, now);
    if (at->second.state == State::kHeld && now >= at->second.give_back_at_ns) {
      check(at->second, "just before its pages are given back");
      give_back(at->first);
    }
  }
  while (left_ > 0 && peer_ && ask()) {
  }
  if (in_round_ && left_ == 0 && requests_.empty()) {
    in_round_ = false;
    say("done");
  }
  return false;
}

bool DecodeEngine::ask() {
  Request request;
  request.seed = SeedPrompt::seed(setup().generation, asked_count_ + 1);
  const auto [tokens, wants_context] = SeedPrompt::of(request.seed, node().max_tokens());
  if (wants_context && node().slots().free() == 0) return false;
  auto pages = node().pages().take(node().pages_for(tokens));
  if (!pages) return false;
  ++asked_count_;
  request.tokens = tokens;
  request.pages = std::move(*pages);
  if (wants_context) request.slot = node().slots().take(1)->front();
  request.since_ms = active_ms();

  DecodeRequest asked;
  asked.external_id = fmt::format("{}.{}", setup().generation, asked_count_);
  asked.prompt_tokens = tokens;
  if (seldom(random(), 3)) asked.cached_tokens = pick(random(), 0, tokens - 1);
  node().image().compute_all_layers(request.seed, request.pages, {0, asked.cached_tokens});
  asked.pages.by_group = {request.pages};
  asked.context_slot = request.slot;
  asked.payload = SeedPrompt::payload(request.seed);
  if (hurry_) {
    asked.deadline_ms = kHurryMs;
  } else if (mischief(12)) {
    asked.deadline_ms = pick(random(), 1, 30);
  }
  const bool at_once = mischief(20);
  if (!at_once && mischief(6)) {
    request.cancel_at_ns = now_ns() + pick(random(), 0, 4000) * kNsPerUs;
  }
  request.cancel_again = mischief(4);

  const RequestId id = node().messenger().request_prefill(*peer_, std::move(asked));
  if (at_once) {
    node().messenger().cancel(id, "at once");
    tally().add("cancels");
  }
  requests_.emplace(id, std::move(request));
  tally().add("requests");
  --left_;
  return true;
}

void DecodeEngine::cancel_when_due(RequestId id, Request& request, std::int64_t now) {
  if (!request.cancel_at_ns || now < *request.cancel_at_ns) return;
  request.cancel_at_ns.reset();
  node().messenger().cancel(id, "the user left");
  if (request.cancel_again) node().messenger().cancel(id, "again");
  tally().add(request.state == State::kAsked ? "cancels" : "cancels_too_late");
}

DecodeEngine::Request& DecodeEngine::asked(RequestId id, const char* told) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || found->second.state != State::kAsked) {
    throw Violation(fmt::format("{} for request {}, which {}", told, id.value(),
                                found == requests_.end() ? "is over" : "was told of already"));
  }
  return found->second;
}

void DecodeEngine::on_ready(const ReadyEvent& event) {
  Request& request = asked(event.request, "on_ready");
  check(request, "when it was ready");
  tally().add("ready");
  request.state = State::kHeld;
  request.give_back_at_ns = now_ns();
  if (mischief(2)) request.give_back_at_ns += pick(random(), 0, 5000) * kNsPerUs;
  if (mischief(20)) {
    node().messenger().cancel(event.request, "after the end");
    tally().add("cancels_too_late");
  }
}

void DecodeEngine::on_failed(const FailedEvent& event) {
  Request& request = asked(event.request, "on_failed");
  if (setup().calm) {
    throw Violation(
        fmt::format("request {} failed: {}", text(event.request, request), event.reason.text()));
  }
  tally().add(fmt::format("failed_{}", to_string(event.reason.code())));
  request.state = State::kFailed;
  if (!event.quiescent) return;
  tally().add("quiescent_at_once");
  give_back(event.request);
}

void DecodeEngine::on_quiescent(const QuiescentEvent& event) {
  const auto found = requests_.find(event.request);
  if (found == requests_.end() || found->second.state != State::kFailed) {
    throw Violation(
        fmt::format("on_quiescent for request {}, which has not failed", event.request.value()));
  }
  tally().add(event.how == Quiescence::kCounted ? "quiescent_counted" : "quiescent_proved");
  give_back(event.request);
}

void DecodeEngine::check(const Request& request, const char* when) {
  const auto demand = [&](const std::string& fault) {
    if (fault.empty()) return;
    throw Violation(fmt::format("request {}.{} of {} tokens, {}: {}", request.seed >> 32,
                                request.seed & 0xffffffff, request.tokens, when, fault));
  };
  demand(node().image().find_fault(request.seed, request.pages, request.tokens - 1));
  if (request.slot) demand(node().image().find_context_fault(request.seed, *request.slot));
  tally().add("checks");
}

void DecodeEngine::give_back(RequestId id) {
  const auto found = requests_.find(id);
  for (const PageIndex page : found->second.pages) node().pages().give(page);
  if (found->second.slot) node().slots().give(*found->second.slot);
  requests_.erase(found);
}

std::string DecodeEngine::text(RequestId id, const Request& request) const {
  return fmt::format("request {} ({}.{}, {} tokens{}) {} for {} ms", id.value(), request.seed >> 32,
                     request.seed & 0xffffffff, request.tokens, request.slot ? ", context" : "",
                     request.state == State::kAsked    ? "is open"
                     : request.state == State::kFailed ? "has failed and is not quiescent"
                                                       : "is held",
                     active_ms() - request.since_ms);
}

std::string DecodeEngine::open_text() const {
  return requests_.empty() ? "" : text(requests_.begin()->first, requests_.begin()->second);
}

std::string DecodeEngine::overdue_text() const {
  for (const auto& [id, request] : requests_) {
    if (overdue(request.since_ms)) return text(id, request);
  }
  return {};
}

}  // namespace kvrail

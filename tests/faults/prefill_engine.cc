#include "faults/prefill_engine.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "faults/seed_prompt.h"

namespace kvrail {
namespace {

constexpr std::size_t kChunksPerStep = 4;
// How long a request is expected; after it, it is given up whether or not it came.
constexpr std::int64_t kPatienceMs = 100;

}  // namespace

void PrefillEngine::on_event(Event& event) {
  if (const auto* asked = std::get_if<PrefillRequestedEvent>(&event)) {
    on_requested(asked->request);
  } else if (const auto* cancelled = std::get_if<CancelledEvent>(&event)) {
    on_cancelled(*cancelled);
  } else if (const auto* released = std::get_if<PagesReleasedEvent>(&event)) {
    on_released(*released);
  } else if (std::holds_alternative<PeerLostEvent>(event)) {
    tally().add("prefill_peer_lost");
    say("lost");
  }
}

void PrefillEngine::on_requested(const PrefillRequest& asked) {
  Request request;
  request.external_id = asked.external_id;
  if (asked.payload.size() != sizeof request.seed) throw Violation("a payload came changed");
  std::memcpy(&request.seed, asked.payload.data(), sizeof request.seed);
  request.tokens = asked.prompt_tokens;
  request.end = asked.prompt_tokens - 1;
  request.wants_context = asked.wants_context;
  request.since_ms = active_ms();
  const std::uint64_t seed = request.seed;
  if (!requests_.emplace(asked.id, std::move(request)).second) {
    throw Violation(fmt::format("request {} was announced twice", asked.id.value()));
  }
  tally().add("announced");
  if (mischief(8)) expect_later(seed);
}

// The router gives a prompt to this node first, or to this node alone.
void PrefillEngine::expect_later(std::uint64_t seed) {
  Request request;
  request.seed = seed + pick(random(), 1, 6);
  const auto [tokens, wants_context] = SeedPrompt::of(request.seed, node().max_tokens());
  request.external_id = fmt::format("{}.{}", request.seed >> 32, request.seed & 0xffffffff);
  request.tokens = tokens;
  request.end = tokens - 1;
  request.wants_context = wants_context;
  request.since_ms = active_ms();
  request.give_up_at_ms = active_ms() + kPatienceMs;
  try {
    const RequestId id = node().messenger().expect_request(request.external_id);
    requests_.emplace(id, std::move(request));
    tally().add("expected");
  } catch (const Error&) {
    tally().add("expected_too_late");
  }
}

PrefillEngine::Request& PrefillEngine::open(RequestId id, const char* told) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) {
    throw Violation(fmt::format("{} for request {}, which is not open", told, id.value()));
  }
  return found->second;
}

void PrefillEngine::on_cancelled(const CancelledEvent& event) {
  Request& request = open(event.request, "on_cancelled");
  request.state = State::kEnding;
  request.since_ms = active_ms();
  tally().add(fmt::format("cancelled_{}", to_string(event.reason.code())));
}

void PrefillEngine::on_released(const PagesReleasedEvent& event) {
  Request& request = open(event.request, "on_pages_released");
  give_back(request);
  if (event.result.code() == ErrorCode::kPreempted) {
    if (request.state == State::kPreempting) {
      request.state = State::kQueued;
    } else if (request.state != State::kEnding) {
      throw Violation(text(event.request, request) + ", and was preempted unasked");
    }
    request.since_ms = active_ms();
    tally().add("preempted");
    return;
  }
  if (setup().calm && !event.result.ok()) {
    throw Violation(text(event.request, request) + ": " + event.result.text());
  }
  tally().add(
      fmt::format("released_{}", event.result.ok() ? "ok" : to_string(event.result.code())));
  requests_.erase(event.request);
}

bool PrefillEngine::work() {
  for (auto& [id, request] : requests_) {
    if (request.give_up_at_ms && active_ms() > *request.give_up_at_ms) {
      request.give_up_at_ms.reset();
      request.state = State::kEnding;
      node().messenger().fail(id, "nobody asks for it");
    }
    if (request.state == State::kQueued) {
      if (mischief(50)) {
        node().messenger().reject(id, "the queue is long");
        request.state = State::kEnding;
        tally().add("rejects");
      } else if (!bind(id, request)) {
        break;
      }
    }
    if (request.state == State::kBound) interfere(id, request);
  }
  return run_steps();
}

bool PrefillEngine::bind(RequestId id, Request& request) {
  if (request.wants_context && node().slots().free() == 0) return false;
  auto pages = node().pages().take(node().pages_for(request.tokens));
  if (!pages) return false;
  request.pages = std::move(*pages);
  if (request.wants_context) request.slot = node().slots().take(1)->front();
  const std::uint32_t cached = seldom(random(), 3) ? pick(random(), 0, request.end) : 0;
  node().image().compute_all_layers(request.seed, request.pages, {0, cached});
  RequestPages table;
  table.by_group = {request.pages};
  request.computed = cached;
  request.context_filled = false;
  request.state = State::kBound;
  request.since_ms = active_ms();
  node().messenger().bind_pages(id, std::move(table), cached, request.slot);
  finish_context(id, request);
  return true;
}

// Rarely, since it is asked in each turn of the loop.
void PrefillEngine::interfere(RequestId id, Request& request) {
  if (mischief(40)) {
    preempt(id);
  } else if (mischief(100)) {
    request.state = State::kEnding;
    request.since_ms = active_ms();
    coin(random()) ? node().messenger().fail(id, "out of memory")
                   : node().messenger().reject(id, "not after all");
    tally().add("fails");
  }
}

void PrefillEngine::preempt(RequestId id) {
  Request& request = requests_.at(id);
  if (request.state != State::kBound) return;
  request.state = State::kPreempting;
  request.since_ms = active_ms();
  node().messenger().preempt(id);
}

PrefillEngine::Step PrefillEngine::announce(std::map<RequestId, std::uint32_t>& from) {
  Step step;
  StepPlan plan;
  for (const auto& [id, request] : requests_) {
    if (request.state != State::kBound || step.chunks.size() == kChunksPerStep) continue;
    std::uint32_t& first = from.emplace(id, request.computed).first->second;
    if (first >= request.end) continue;
    const std::uint32_t left = request.end - first;
    const std::uint32_t count = coin(random()) ? left : pick(random(), 1, left);
    step.chunks.push_back({id, {first, first + count}});
    plan.chunks.push_back({id, {first, first + count}});
    first += count;
  }
  if (!step.chunks.empty()) step.id = node().messenger().begin_step(node().counter(), plan);
  return step;
}

bool PrefillEngine::run_steps() {
  std::map<RequestId, std::uint32_t> announced;
  const Step first = announce(announced);
  if (first.chunks.empty()) return false;
  Step second;
  if (seldom(random(), 3)) second = announce(announced);
  KvMessenger& messenger = node().messenger();
  const bool discards = mischief(15);
  if (!second.chunks.empty() && (discards || mischief(10))) {
    messenger.discard_step(node().counter(), second.id);
    second.chunks.clear();
    tally().add("steps_discarded");
  }
  if (discards) {
    messenger.discard_step(node().counter(), first.id);
    tally().add("steps_discarded");
    return true;
  }
  run_step(first);
  if (!second.chunks.empty()) run_step(second);
  return true;
}

void PrefillEngine::run_step(const Step& step) {
  // A step that fails is told so, or has a signal too few or too many; the next one's start says.
  const bool fails = mischief(60);
  const std::uint32_t how = fails ? pick(random(), 0, 2) : 0;
  const std::uint32_t layers = node().layers();
  node().counter().start(step.id);
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    if (fails && how < 2 && layer + 1 == layers) break;
    for (const Chunk& chunk : step.chunks) {
      const Request& request = requests_.at(chunk.id);
      node().image().compute(request.seed, request.pages, LayerIndex(layer), chunk.tokens);
    }
    node().counter().signal();
    if (layer == 0 && mischief(50)) preempt(step.chunks.front().id);
  }
  tally().add(fails ? "steps_spoilt" : "steps");
  if (fails) {
    if (how == 0) node().messenger().fail_step(node().counter(), step.id, "an assertion");
    if (how == 2) node().counter().signal();
    const StepId next = node().messenger().begin_step(node().counter(), {});
    node().counter().start(next);
    for (std::uint32_t layer = 0; layer < layers; ++layer) node().counter().signal();
  }
  for (const Chunk& chunk : step.chunks) {
    Request& request = requests_.at(chunk.id);
    if (request.state != State::kBound) continue;
    request.computed = chunk.tokens.end;
    if (fails) {
      request.state = State::kEnding;
    } else {
      finish_context(chunk.id, request);
    }
    request.since_ms = active_ms();
  }
}

void PrefillEngine::finish_context(RequestId id, Request& request) {
  if (request.computed < request.end || !request.slot || request.context_filled) return;
  request.context_filled = true;
  node().image().compute_context(request.seed, *request.slot);
  node().messenger().context_ready(id);
}

void PrefillEngine::give_back(Request& request) {
  for (const PageIndex page : request.pages) node().pages().give(page);
  if (request.slot) node().slots().give(*request.slot);
  request.pages.clear();
  request.slot.reset();
}

std::string PrefillEngine::text(RequestId id, const Request& request) const {
  static constexpr const char* kStates[] = {"waits for pages", "is bound", "is being preempted",
                                            "is being given up"};
  return fmt::format(
      "request {} ({}, computed {} of {}{}) {} for {} ms", id.value(), request.external_id,
      request.computed, request.end, request.wants_context ? ", context" : "",
      kStates[static_cast<std::size_t>(request.state)], active_ms() - request.since_ms);
}

std::string PrefillEngine::open_text() const {
  return requests_.empty() ? "" : text(requests_.begin()->first, requests_.begin()->second);
}

std::string PrefillEngine::overdue_text() const {
  for (const auto& [id, request] : requests_) {
    if (overdue(request.since_ms)) return text(id, request);
  }
  return {};
}

}  // namespace kvrail

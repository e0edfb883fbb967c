// What DecodeEngine does when kvrail tells it something.

#include <utility>
#include <variant>

#include "support/clock.h"
#include "support/decode_engine.h"

namespace mock_engine {

void DecodeEngine::dispatch(const kvrail::Event& event) {
  std::visit(
      [this](const auto& what) {
        if constexpr (requires { handle(what); }) handle(what);
      },
      event);
}

void DecodeEngine::handle(const kvrail::ReadyEvent& event) {
  const JobPtr job = jobs_.extract(event.request).mapped();
  job->ready_ns = now_ns();
  job->report = event.report;
  check_and_release(job);
}

void DecodeEngine::handle(const kvrail::FailedEvent& event) {
  const JobPtr job = jobs_.at(event.request);
  job->result = event.reason;
  if (!event.quiescent) return;  // the pages may still be written until QuiescentEvent
  jobs_.erase(event.request);
  check_and_release(job);
}

void DecodeEngine::handle(const kvrail::QuiescentEvent& event) {
  const JobPtr job = jobs_.extract(event.request).mapped();
  check_and_release(job);
}

void DecodeEngine::handle(const kvrail::PeerLostEvent& event) {
  for (Peer& peer : peers_) peer.lost |= peer.id == event.peer;
  events_({{"event", "lost_peer"}, {"peer", event.peer_name}, {"reason", event.reason.text()}});
}

// Checked are the request's own rows, all others of its pages, and the pages behind them.
void DecodeEngine::check_and_release(const JobPtr& job) {
  const bool arrived = job->result.ok();
  const kvrail::RequestPages neighbours = pages_.take_neighbours(job->held);
  const kvrail::RequestPages mine = pages_.publish(job->prompt, job->held, arrived);
  background_.post(
      [this, job, neighbours, mine, arrived] {
        job->damage = ranks_.check(*job->prompt, job->held.pages, job->held.slot, arrived);
        job->damage.canary_bytes += ranks_.count_not_poison(neighbours);
        ranks_.poison(mine, job->held.slot);
      },
      [this, job, neighbours] {
        pages_.release(neighbours);
        pages_.release(job->held);
        end(*job);
      });
}

void DecodeEngine::end(const Job& job) {
  ++ended_;
  all_well_ &= job.result.ok() && job.damage == Damage{};
  const bool sent = job.result.ok() && job.report.bytes > 0;
  const std::uint64_t pages = sent ? pages_.target_pages(*job.prompt, job.held) : 0;
  events_({{"event", "received"},
           {"request", job.prompt->external_id()},
           {"peer", job.peer.name},
           {"ok", job.result.ok()},
           {"reason", job.result.text()},
           {"prompt_tokens", job.prompt->prompt_tokens()},
           {"cached_tokens", job.held.cached_tokens},
           {"bytes", job.report.bytes},
           {"units", job.report.units},
           {"pages", pages},
           {"requested_ns", job.report.requested_ns},
           {"first_arrival_ns", job.report.first_arrival_ns},
           {"last_arrival_ns", job.report.last_arrival_ns},
           {"ready_ns", job.ready_ns},
           {"wrong_bytes", job.damage.wrong_bytes},
           {"canary_bytes", job.damage.canary_bytes}});
}

}  // namespace mock_engine

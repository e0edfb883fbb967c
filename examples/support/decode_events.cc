// What DecodeEngine does when kvrail tells it something.

#include <utility>
#include <variant>

#include "support/clock.h"
#include "support/decode_engine.h"

namespace mock_engine {

using kvrail::PageIndex;

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
  check_and_release(job, publish(*job));
}

void DecodeEngine::handle(const kvrail::FailedEvent& event) {
  const JobPtr job = jobs_.at(event.request);
  job->result = event.reason;
  if (!event.quiescent) return;  // the pages may still be written until QuiescentEvent
  jobs_.erase(event.request);
  check_and_release(job, job->pages);
}

void DecodeEngine::handle(const kvrail::QuiescentEvent& event) {
  const JobPtr job = jobs_.extract(event.request).mapped();
  check_and_release(job, job->pages);
}

void DecodeEngine::handle(const kvrail::PeerLostEvent& event) {
  for (Peer& peer : peers_) peer.lost |= peer.id == event.peer;
  events_({{"event", "lost_peer"}, {"peer", event.peer_name}, {"reason", event.reason.text()}});
}

// Returns the pages that nobody but the job knows.
PageTable DecodeEngine::publish(const Job& job) {
  const std::uint32_t page_tokens = cache_.page_tokens();
  const std::uint32_t full = Prompt::full_pages(job.prompt->prefill_tokens(), page_tokens);
  PageTable private_pages;
  for (std::uint32_t i = job.cached_tokens / page_tokens; i < job.pages.size(); ++i) {
    if (i < full && pool_.publish(job.pages[i], job.prompt->page_key(i, page_tokens))) {
      cached_[job.pages[i]] = {job.prompt, i};
    } else {
      private_pages.push_back(job.pages[i]);
    }
  }
  return private_pages;
}

void DecodeEngine::check_and_release(const JobPtr& job, PageTable private_pages) {
  if (!job->result.ok()) {
    private_pages.erase(private_pages.begin(),
                        private_pages.begin() + job->cached_tokens / cache_.page_tokens());
  }
  const PageIndex neighbour(job->pages.back().value() + 1);
  if (neighbour.value() < pool_.page_count() && pool_.is_free(neighbour)) {
    job->canary_bytes += cache_.count_not_poison(neighbour);
  }
  background_.post(
      [this, job, private_pages = std::move(private_pages)] {
        const std::uint32_t sent_end = job->prompt->prefill_tokens();
        if (job->result.ok()) {
          job->wrong_bytes = cache_.count_wrong(*job->prompt, {0, sent_end}, job->pages);
        }
        job->canary_bytes +=
            cache_.count_not_poison(job->pages.back(), sent_end % cache_.page_tokens());
        for (const PageIndex page : private_pages) cache_.poison(page);
      },
      [this, job] {
        pool_.release(job->pages);
        end(*job);
      });
}

void DecodeEngine::end(const Job& job) {
  ++ended_;
  all_well_ &= job.result.ok() && job.wrong_bytes == 0 && job.canary_bytes == 0;
  events_({{"event", "received"},
           {"request", job.prompt->external_id()},
           {"peer", job.peer.name},
           {"ok", job.result.ok()},
           {"reason", job.result.text()},
           {"prompt_tokens", job.prompt->prompt_tokens()},
           {"cached_tokens", job.cached_tokens},
           {"bytes", job.report.bytes},
           {"units", job.report.units},
           {"requested_ns", job.report.requested_ns},
           {"first_arrival_ns", job.report.first_arrival_ns},
           {"last_arrival_ns", job.report.last_arrival_ns},
           {"ready_ns", job.ready_ns},
           {"wrong_bytes", job.wrong_bytes},
           {"canary_bytes", job.canary_bytes}});
}

}  // namespace mock_engine

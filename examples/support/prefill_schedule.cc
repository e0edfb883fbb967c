// The scheduler thread of PrefillEngine: pages for requests, steps for pages.

#include <utility>

#include "support/prefill_engine.h"
#include "support/prompt_pages.h"

namespace mock_engine {

void PrefillEngine::schedule() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (admit_next(lock) || begin_next_step(lock)) continue;
    changed_.wait(lock);
  }
}

bool PrefillEngine::admit_next(Lock& lock) {
  while (!waiting_.empty()) {
    const auto job = jobs_.find(waiting_.front());
    if (job != jobs_.end() && !job->second.cancelled && !job->second.released) break;
    waiting_.pop_front();
  }
  if (waiting_.empty()) return false;
  PrefillJob& job = jobs_.at(waiting_.front());
  if (job.prompt->pages(cache_.page_tokens()) > options_.pool_pages) {
    waiting_.pop_front();
    return true;
  }
  auto taken = take_pages(*job.prompt, pool_, cache_.page_tokens());
  if (!taken) return false;
  waiting_.pop_front();
  job.pages = std::move(taken->pages);
  job.cached_tokens = job.next_token = taken->cached_tokens;
  const auto id = job.id;
  const kvrail::RequestPages pages{{job.pages}};
  const std::uint32_t cached_tokens = job.cached_tokens;
  lock.unlock();
  // If the request has ended in the meantime, this is ignored.
  messenger_.bind_pages(id, pages, cached_tokens);
  lock.lock();
  return true;
}

bool PrefillEngine::begin_next_step(Lock& lock) {
  if (passes_in_flight_ >= options_.passes_in_flight) return false;
  std::vector<PrefillJob*> jobs;
  for (auto& [id, job] : jobs_) jobs.push_back(&job);
  kvrail::StepPlan plan;
  plan.chunks = form_chunks(jobs, options_.chunk_tokens);
  if (plan.chunks.empty()) return false;
  Pass pass;
  for (const kvrail::StepChunk& chunk : plan.chunks) {
    PrefillJob& job = jobs_.at(chunk.request);
    ++job.passes_in_flight;  // from here on its pages stay ours
    pass.chunks.push_back({job.id, job.prompt, chunk.tokens, job.pages});
  }
  ++passes_in_flight_;
  lock.unlock();
  pass.step = messenger_.begin_step(*counter_, std::move(plan));
  runner_->push(std::move(pass));
  lock.lock();
  return true;
}

}  // namespace mock_engine

// The scheduler thread of PrefillEngine: pages for requests, steps for pages.

#include <utility>

#include "support/prefill_engine.h"

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
  if (!fits(*job.prompt)) {  // rejected
    waiting_.pop_front();
    return true;
  }
  job.held = pools_.take(*job.prompt, true);
  if (!job.held) return false;
  waiting_.pop_front();
  job.next_token = job.held->cached_tokens;
  const auto id = job.id;
  const Holding held = *job.held;
  lock.unlock();
  // If the request has ended in the meantime, this is ignored.
  messenger_.bind_pages(id, held.pages, held.cached_tokens, held.slot);
  lock.lock();
  return true;
}

bool PrefillEngine::begin_next_step(Lock& lock) {
  if (passes_in_flight_ >= options_.passes_in_flight || failed_) return false;
  std::vector<PrefillJob*> jobs;
  for (auto& [id, job] : jobs_) jobs.push_back(&job);
  kvrail::StepPlan plan;
  plan.chunks = form_chunks(jobs, options_.chunk_tokens);
  if (plan.chunks.empty()) return false;
  Pass pass;
  for (const kvrail::StepChunk& chunk : plan.chunks) {
    PrefillJob& job = jobs_.at(chunk.request);
    ++job.passes_in_flight;  // from here on its pages stay ours
    pass.chunks.push_back({job.id, job.prompt, chunk.tokens, job.held->pages, job.held->slot});
  }
  ++passes_in_flight_;
  lock.unlock();
  pass.step = messenger_.begin_step(*counter_, std::move(plan));
  runner_->push(std::move(pass));
  lock.lock();
  return true;
}

}  // namespace mock_engine

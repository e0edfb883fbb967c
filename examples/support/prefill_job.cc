#include "support/prefill_job.h"

#include <algorithm>

namespace mock_engine {

std::vector<kvrail::StepChunk> form_chunks(std::span<PrefillJob* const> jobs,
                                           std::uint32_t budget_tokens) {
  std::vector<kvrail::StepChunk> chunks;
  for (PrefillJob* job : jobs) {
    if (budget_tokens == 0) break;
    if (!job->needs_tokens()) continue;
    const std::uint32_t tokens =
        std::min(budget_tokens, job->prompt->prefill_tokens() - job->next_token);
    chunks.push_back({job->id, {job->next_token, job->next_token + tokens}});
    job->next_token += tokens;
    budget_tokens -= tokens;
  }
  return chunks;
}

void publish(const PrefillJob& job, std::uint32_t computed_tokens, PagePool& pool,
             std::uint32_t page_tokens) {
  const std::uint32_t full = Prompt::full_pages(computed_tokens, page_tokens);
  for (std::uint32_t page = job.cached_tokens / page_tokens; page < full; ++page) {
    pool.publish(job.pages[page], job.prompt->page_key(page, page_tokens));
  }
}

}  // namespace mock_engine

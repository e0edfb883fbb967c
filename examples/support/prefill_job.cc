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

}  // namespace mock_engine

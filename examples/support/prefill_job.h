#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvrail/prefill_scheduler.h"
#include "support/request_pools.h"
#include "support/trace.h"

namespace mock_engine {

// One request on the prefill node, from its announcement until nothing needs its pages.
struct PrefillJob {
  kvrail::RequestId id;
  std::string peer_name;
  PromptPtr prompt;

  std::optional<Holding> held;         // none until admitted
  std::uint32_t next_token = 0;        // the first one that no step holds yet
  std::uint32_t passes_in_flight = 0;  // steps announced whose pass has not ended
  bool cancelled = false;

  bool released = false;  // kvrail has no use for the pages any more
  kvrail::Status result;
  kvrail::SendReport report;

  bool needs_tokens() const {
    return held && !cancelled && !released && next_token < prompt->prefill_tokens();
  }
  // Neither kvrail nor a pass of ours touches the pages.
  bool finished() const { return released && passes_in_flight == 0; }
};

// Continuous batching: the next step takes tokens of the jobs in their order until `budget_tokens`
// are full. Marks them as taken.
std::vector<kvrail::StepChunk> form_chunks(std::span<PrefillJob* const> jobs,
                                           std::uint32_t budget_tokens);

}  // namespace mock_engine

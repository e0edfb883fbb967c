#pragma once

#include <map>

#include "support/events.h"
#include "support/pass_runner.h"
#include "support/prefill_job.h"

namespace mock_engine {

// The "sent" event of a job that kvrail has released: joins its report with the times of the passes
// that computed it.
Event send_event(const PrefillJob& job, const std::map<kvrail::StepId, PassTimes>& passes);

}  // namespace mock_engine

#include "support/send_event.h"

#include <algorithm>

namespace mock_engine {

Event send_event(const PrefillJob& job, const std::map<kvrail::StepId, PassTimes>& passes) {
  Event event{{"event", "sent"},
              {"request", job.prompt->external_id()},
              {"peer", job.peer_name},
              {"ok", job.result.ok()},
              {"reason", job.result.text()},
              {"prompt_tokens", job.prompt->prompt_tokens()},
              {"cached_tokens", job.held ? job.held->cached_tokens : 0},
              {"bytes", job.report.bytes},
              {"units", job.report.units},
              {"writes", job.report.writes}};
  const PassTimes* first_pass = nullptr;
  std::int64_t last_signal_ns = 0;
  auto first_post = Event::array();
  auto last_byte = Event::array();
  for (const kvrail::LayerTiming& timing : job.report.layers) {
    const auto pass = passes.find(timing.step);
    if (pass == passes.end() || timing.first_post_ns == 0) continue;
    const std::int64_t signal_ns = pass->second.signal_ns.at(timing.layer.value());
    if (first_pass == nullptr || pass->second.start_ns < first_pass->start_ns) {
      first_pass = &pass->second;
    }
    last_signal_ns = std::max(last_signal_ns, signal_ns);
    first_post.push_back(timing.first_post_ns - signal_ns);
    last_byte.push_back(timing.last_completion_ns - signal_ns);
  }
  if (first_pass != nullptr) {
    event["first_pass_ns"] = {first_pass->start_ns, first_pass->end_ns};
    event["last_signal_ns"] = last_signal_ns;
    event["first_post_ns"] = std::move(first_post);
    event["last_byte_ns"] = std::move(last_byte);
  }
  return event;
}

}  // namespace mock_engine

#include "perf/outcome.h"

#include <string>

#include "perf/channel.h"

namespace kvrail::perf {

void Outcome::set(const Status& status) {
  if (!told_.exchange(true, std::memory_order_relaxed)) promise_.set_value(status);
}

void wait_for(std::future<Status>& outcome, const char* what) {
  if (outcome.wait_for(kPatience) != std::future_status::ready) {
    throw Error(ErrorCode::kDeadline, std::string(what) + " did not come");
  }
  const Status status = outcome.get();
  if (!status.ok()) throw Error(status.code(), status.text());
}

}  // namespace kvrail::perf

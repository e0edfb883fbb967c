#include "perf/kvrail_flow.h"

#include <chrono>
#include <utility>

namespace kvrail::perf {
namespace {

std::uint32_t units_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + kMaxUnitBytes - 1) / kMaxUnitBytes);
}

}  // namespace

RunLists::RunLists(const PagePlan& plan) {
  std::size_t page = 0;
  for (const std::uint32_t end : plan.list_ends) {
    auto& list = lists.emplace_back();
    for (; page < end; ++page) {
      const auto& [source, target, size_bytes] = plan.pages[page];
      list.push_back({source, target, size_bytes, units_of(size_bytes)});
      units += list.back().units;
    }
  }
}

KvrailFlow::KvrailFlow(TransferEngine& engine, std::vector<Route> routes, const RunLists& runs)
    : engine_(engine), routes_(std::move(routes)), runs_(runs) {}

SendReport KvrailFlow::run(std::uint64_t passes, std::uint32_t depth) {
  total_ = passes * runs_.lists.size();
  latencies_us_.resize(total_);
  auto outcome = outcome_.future();
  for (std::uint32_t i = 0; i < depth; ++i) submit_next(Clock::now());
  wait_for(outcome, "the completions");
  return {writes_.load(std::memory_order_relaxed), std::move(latencies_us_), {}};
}

void KvrailFlow::submit_next(Clock::time_point now) {
  const std::uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
  if (index >= total_) return;
  const Route& route = routes_[index % routes_.size()];
  WriteList list = route.list;
  list.runs = runs_.lists[index % runs_.lists.size()];
  const Status status = engine_.submit(
      route.peer, std::move(list), FullQueue::kRefuse,
      [self = shared_from_this(), now](const Status& status, const WriteReport& report) {
        if (!status.ok()) return self->outcome_.set(status);
        self->writes_.fetch_add(report.writes_posted, std::memory_order_relaxed);
        const std::uint64_t done = self->done_.fetch_add(1, std::memory_order_relaxed);
        // One look at the clock for the end of this and the beginning of the next.
        const Clock::time_point end = Clock::now();
        const std::chrono::duration<double, std::micro> time = end - now;
        self->latencies_us_[done] = time.count();
        if (done + 1 == self->total_) return self->outcome_.set({});
        self->submit_next(end);
      });
  if (!status.ok()) outcome_.set(status);
}

}  // namespace kvrail::perf

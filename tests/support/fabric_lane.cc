#include "support/fabric_lane.h"

#include <utility>

namespace kvrail {
namespace {

std::shared_ptr<TestMemory> target_memory(std::uint64_t size_bytes) {
  auto memory = TestMemory::create(size_bytes);
  memory->set(kCanary);
  return memory;
}

}  // namespace

FabricLane::FabricLane(FabricRoute route, Size size, std::uint64_t seed)
    : route_(route),
      size_(size),
      source_(TestMemory::create(size.source_bytes)),
      target_(target_memory(size.target_bytes)),
      source_region_(route.sender.register_memory(size.source_group, source_)),
      target_region_(route.receiver.register_memory(size.target_group, target_)),
      remote_(route.sender.import_region(route.receiver_at_sender, target_region_.descriptor)),
      image_(*target_) {
  source_->fill(seed);
}

FabricLane::FabricLane(const FabricLane& lane, FabricRoute route)
    : route_(route),
      size_(lane.size_),
      source_(lane.source_),
      target_(lane.target_),
      source_region_(lane.source_region_),
      target_region_(lane.target_region_),
      remote_(route.sender.import_region(route.receiver_at_sender, target_region_.descriptor)),
      image_(*target_) {}

CounterId FabricLane::take_counter() {
  return route_.receiver.take_counter(route_.sender_at_receiver, size_.target_group);
}

CounterOutcome FabricLane::expect(CounterId counter, std::uint64_t units) {
  auto outcome = make_outcome<CounterResult>();
  route_.receiver.expect(route_.sender_at_receiver, size_.target_group, counter, units,
                         report_to(outcome));
  return outcome;
}

CounterReport FabricLane::peek(CounterId counter) {
  return route_.receiver.peek(route_.sender_at_receiver, size_.target_group, counter);
}

void FabricLane::release(CounterId counter) {
  route_.receiver.release_counter(route_.sender_at_receiver, size_.target_group, counter);
}

WriteList FabricLane::list(CounterId counter, std::vector<WriteRun> runs) const {
  return {source_region_.id, remote_, counter, std::move(runs)};
}

WriteOutcome FabricLane::submit(CounterId counter, std::vector<WriteRun> runs) {
  auto outcome = make_outcome<WriteResult>();
  const Status status =
      route_.sender.submit(route_.receiver_at_sender, list(counter, std::move(runs)),
                           FullQueue::kBlock, report_to(outcome));
  if (!status.ok()) {
    ADD_FAILURE() << to_string(status.code()) << ": " << status.text();
    outcome->report({status, {}});
  }
  return outcome;
}

testing::AssertionResult FabricLane::transfer(const std::vector<WriteRun>& runs) {
  note(runs);
  const CounterId counter = take_counter();
  const auto arrived = expect(counter, units_of(runs));
  const auto sent = submit(counter, runs);
  if (auto result = written(sent); !result) return result;
  if (auto result = counted(arrived, units_of(runs)); !result) return result;
  release(counter);
  return testing::AssertionSuccess();
}

testing::AssertionResult FabricLane::works() {
  source_->fill(source_region_.id.value() + 1000);
  const std::uint64_t size = std::min(size_.source_bytes, size_.target_bytes / 2) / 4;
  if (auto result = transfer(strided_runs(4, size, 2 * size, size_.source_bytes)); !result) {
    return result;
  }
  return target_is_right();
}

void FabricLane::remove() {
  route_.sender.deregister(source_region_.id);
  route_.receiver.deregister(target_region_.id);
}

testing::AssertionResult written(const WriteOutcome& outcome, Deadline deadline) {
  const auto result = outcome->wait(deadline);
  if (!result) return testing::AssertionFailure() << "the submission did not complete";
  if (!result->status.ok()) {
    return testing::AssertionFailure()
           << "the submission failed: " << to_string(result->status.code()) << ": "
           << result->status.text();
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult counted(const CounterOutcome& outcome, std::uint64_t units,
                                 Deadline deadline) {
  const auto result = outcome->wait(deadline);
  if (!result) return testing::AssertionFailure() << "the counter did not reach " << units;
  if (!result->status.ok()) {
    return testing::AssertionFailure() << "the counter failed: " << to_string(result->status.code())
                                       << ": " << result->status.text();
  }
  if (result->report.units_arrived != units || result->report.units_expected != units) {
    return testing::AssertionFailure()
           << "the report says " << result->report.units_arrived << " of "
           << result->report.units_expected << " units instead of " << units;
  }
  return testing::AssertionSuccess();
}

}  // namespace kvrail

#include "device_memory/gpu_lane.h"

#include <algorithm>

namespace kvrail {
namespace {

TransferEngine& engine_of(FabricNode& node) { return dynamic_cast<LocalNode&>(node).engine(); }

}  // namespace

GpuLane::GpuLane(FabricRoute route, End source, End target, std::uint64_t seed)
    : route_(route),
      target_group_(target.group),
      source_(source.gpu, source.size_bytes),
      target_(target.gpu, target.size_bytes),
      sent_(source.size_bytes + 2 * GpuPages::kMarginBytes),
      expected_(target_.get_all()),
      source_region_(
          engine_of(route.sender).register_memory(source.group, source_.data(), source.size_bytes)),
      target_region_(engine_of(route.receiver)
                         .register_memory(target.group, target_.data(), target.size_bytes)),
      remote_(route.sender.import_region(route.receiver_at_sender, target_region_.descriptor())) {
  fill_pattern(sent_, seed);
  source_.put_all(sent_);
}

CounterId GpuLane::take_counter() {
  return route_.receiver.take_counter(route_.sender_at_receiver, target_group_);
}

CounterOutcome GpuLane::expect(CounterId counter, std::uint64_t units) {
  auto outcome = make_outcome<CounterResult>();
  route_.receiver.expect(route_.sender_at_receiver, target_group_, counter, units,
                         report_to(outcome));
  return outcome;
}

WriteOutcome GpuLane::submit(CounterId counter, const std::vector<WriteRun>& runs) {
  auto outcome = make_outcome<WriteResult>();
  const Status status =
      route_.sender.submit(route_.receiver_at_sender, {source_region_.id(), remote_, counter, runs},
                           FullQueue::kBlock, report_to(outcome));
  if (!status.ok()) {
    ADD_FAILURE() << to_string(status.code()) << ": " << status.text();
    outcome->report({status, {}});
  }
  return outcome;
}

std::uint64_t GpuLane::arrived(CounterId counter) {
  return route_.receiver.peek(route_.sender_at_receiver, target_group_, counter).units_arrived;
}

testing::AssertionResult GpuLane::transfer(const std::vector<WriteRun>& runs) {
  note(runs);
  const CounterId counter = take_counter();
  const auto arrived = expect(counter, units_of(runs));
  const auto sent = submit(counter, runs);
  if (auto result = written(sent); !result) return result;
  if (auto result = counted(arrived, units_of(runs)); !result) return result;
  route_.receiver.release_counter(route_.sender_at_receiver, target_group_, counter);
  return testing::AssertionSuccess();
}

void GpuLane::note(const std::vector<WriteRun>& runs) {
  const auto at = [](std::vector<std::byte>& bytes, std::uint64_t offset) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(GpuPages::kMarginBytes + offset);
  };
  for (const WriteRun& run : runs) {
    for (std::uint64_t i = 0; i < run.count; ++i) {
      std::copy_n(at(sent_, run.source_offset + i * run.source_stride_bytes), run.size_bytes,
                  at(expected_, run.target_offset + i * run.target_stride_bytes));
    }
  }
}

testing::AssertionResult GpuLane::target_is_right() const {
  return same_bytes(expected_, target_.get_all());
}

}  // namespace kvrail

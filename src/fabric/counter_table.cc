#include "fabric/counter_table.h"

#include <utility>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {

CounterTable::CounterTable(std::uint32_t max_id) : max_id_(max_id) {}

CounterTable::~CounterTable() {
  for (auto& chunk : chunks_) {
    std::unique_ptr<Slot[]>(chunk.load(std::memory_order_relaxed)).reset();
  }
}

CounterTable::Slot* CounterTable::find(CounterId counter) const {
  const std::uint32_t id = counter.value();
  if (id == 0 || id > max_id_) return nullptr;
  const std::uint32_t position = id - 1 + kFirstChunk;
  const std::size_t chunk = static_cast<std::size_t>(std::bit_width(position / kFirstChunk)) - 1;
  Slot* slots = chunks_[chunk].load(std::memory_order_acquire);
  return slots == nullptr ? nullptr : slots + (position - (kFirstChunk << chunk));
}

CounterTable::Slot* CounterTable::taken_slot(CounterId counter) const {
  Slot* slot = find(counter);
  return slot != nullptr && slot->taken.load(std::memory_order_acquire) ? slot : nullptr;
}

CounterId CounterTable::take() {
  const std::lock_guard lock(mutex_);
  CounterId id;
  if (free_.size() > kReuseDistance || (next_fresh_ > max_id_ && !free_.empty())) {
    id = free_.front();
    free_.pop_front();
  } else if (next_fresh_ <= max_id_) {
    id = CounterId{next_fresh_++};
    const std::uint32_t position = id.value() - 1 + kFirstChunk;
    const std::size_t chunk = static_cast<std::size_t>(std::bit_width(position / kFirstChunk)) - 1;
    if (chunks_[chunk].load(std::memory_order_relaxed) == nullptr) {
      auto slots = std::make_unique<Slot[]>(std::size_t{kFirstChunk} << chunk);
      chunks_[chunk].store(slots.release(), std::memory_order_release);
    }
  } else {
    throw Error(ErrorCode::kLimit,
                fmt::format("all {} counters of this peer are in use: fewer requests may be open "
                            "at once",
                            max_id_));
  }
  Slot* slot = find(id);
  slot->arrived.store(0, std::memory_order_relaxed);
  slot->expected.store(kNotExpected, std::memory_order_relaxed);
  slot->first_ns.store(0, std::memory_order_relaxed);
  slot->last_ns.store(0, std::memory_order_relaxed);
  slot->taken.store(true, std::memory_order_release);
  taken_.fetch_add(1, std::memory_order_relaxed);
  return id;
}

CounterReport CounterTable::report(CounterId counter) const {
  const Slot* slot = taken_slot(counter);
  if (slot == nullptr) return {};
  const std::uint64_t expected = slot->expected.load(std::memory_order_relaxed);
  return {slot->arrived.load(std::memory_order_relaxed), expected == kNotExpected ? 0 : expected,
          slot->first_ns.load(std::memory_order_relaxed),
          slot->last_ns.load(std::memory_order_relaxed)};
}

CounterTable::Arrival CounterTable::compare(const Slot& slot) const {
  const std::uint64_t expected = slot.expected.load(std::memory_order_relaxed);
  const std::uint64_t arrived = slot.arrived.load(std::memory_order_relaxed);
  if (expected == kNotExpected || arrived < expected) return Arrival::kCounted;
  return arrived == expected ? Arrival::kReached : Arrival::kExceeded;
}

CounterTable::Arrival CounterTable::add(CounterId counter, std::uint32_t units,
                                        std::int64_t now_ns) {
  Slot* slot = taken_slot(counter);
  if (slot == nullptr) return Arrival::kStray;
  // Only this thread writes: a load and a store do, without a locked instruction.
  slot->arrived.store(slot->arrived.load(std::memory_order_relaxed) + units,
                      std::memory_order_relaxed);
  if (slot->first_ns.load(std::memory_order_relaxed) == 0) {
    slot->first_ns.store(now_ns, std::memory_order_relaxed);
  }
  slot->last_ns.store(now_ns, std::memory_order_relaxed);
  return compare(*slot);
}

bool CounterTable::expect(CounterId counter, std::uint64_t units, CounterCallback reached,
                          Arrival* outcome) {
  Slot* slot = taken_slot(counter);
  if (slot == nullptr || slot->expected.load(std::memory_order_relaxed) != kNotExpected) {
    return false;
  }
  slot->expected.store(units, std::memory_order_relaxed);
  slot->reached = std::move(reached);
  *outcome = compare(*slot);
  return true;
}

CounterCallback CounterTable::take_callback(CounterId counter) {
  Slot* slot = taken_slot(counter);
  return slot == nullptr ? CounterCallback{} : std::exchange(slot->reached, {});
}

void CounterTable::release(CounterId counter) {
  Slot* slot = taken_slot(counter);
  if (slot == nullptr) return;
  slot->reached = {};
  slot->taken.store(false, std::memory_order_relaxed);
  taken_.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  free_.push_back(counter);
}

std::vector<CounterId> CounterTable::expected() const {
  std::uint32_t end = 0;
  {
    const std::lock_guard lock(mutex_);
    end = next_fresh_;
  }
  std::vector<CounterId> ids;
  for (std::uint32_t id = 1; id < end; ++id) {
    const Slot* slot = taken_slot(CounterId{id});
    if (slot != nullptr && slot->reached) ids.push_back(CounterId{id});
  }
  return ids;
}

}  // namespace kvrail

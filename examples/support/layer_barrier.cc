#include "support/layer_barrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <ctime>

namespace mock_engine {
namespace {

using Word = std::atomic_ref<std::uint32_t>;

void wake_all(std::uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Acquire, so that what was done before the word was raised is seen after.
bool wait_for(std::uint32_t* word, std::uint32_t wanted, const std::function<bool()>& give_up) {
  while (true) {
    const std::uint32_t value = Word(*word).load(std::memory_order_acquire);
    if (value == wanted) return true;
    const timespec limit{0, 100'000'000};
    const bool timed_out = syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, nullptr, 0) != 0;
    if (timed_out && Word(*word).load(std::memory_order_acquire) == value && give_up()) {
      return false;
    }
  }
}

void raise(std::uint32_t* word) {
  Word(*word).fetch_add(1, std::memory_order_release);  // pairs with wait_for()
  wake_all(word);
}

}  // namespace

LayerBarrier::LayerBarrier(std::byte* shared)
    : begun_(reinterpret_cast<std::uint32_t*>(shared)), arrived_(begun_ + 1) {}

void LayerBarrier::begin_layer() {
  ++layers_;
  raise(begun_);
}

bool LayerBarrier::wait_for_all(std::uint32_t ranks, const std::function<bool()>& give_up) {
  return wait_for(arrived_, layers_ * ranks, give_up);
}

bool LayerBarrier::wait_for_layer(const std::function<bool()>& give_up) {
  ++layers_;
  return wait_for(begun_, layers_, give_up);
}

void LayerBarrier::arrive() { raise(arrived_); }

}  // namespace mock_engine

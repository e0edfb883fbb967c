#include "support/scripted_provider/control.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/unique_fd.h"

namespace kvrail::scripted {

Control::Control() {
  if (const char* text = std::getenv(kScriptVariable)) apply(Script::parse(text));
  const char* path = std::getenv(kControlVariable);
  if (path == nullptr) return;
  const UniqueFd file(::open(path, O_RDWR | O_CLOEXEC));
  void* mapping = MAP_FAILED;
  if (file) {
    mapping =
        ::mmap(nullptr, sizeof(ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  if (mapping == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
  block_ = static_cast<ControlBlock*>(mapping);
}

Control::~Control() {
  if (block_ != &own_) ::munmap(block_, sizeof(ControlBlock));
}

bool Control::refresh() {
  // Pairs with ControlBlock::write(); and with the store below for the script's own numbers.
  const std::uint32_t generation = block_->generation.load(std::memory_order_acquire);
  if (generation == seen_.load(std::memory_order_acquire) || generation % 2 != 0) return false;
  const std::lock_guard lock(mutex_);
  if (generation == seen_.load(std::memory_order_relaxed)) return false;
  const std::optional<std::string> text = block_->read(generation);
  if (!text) return false;  // next time
  apply(Script::parse(*text));
  seen_.store(generation, std::memory_order_release);  // the load above
  return true;
}

void Control::apply(Script script) {
  script_ = std::move(script);
  queue_limit_.store(script_.queue_limit(), std::memory_order_relaxed);
  nics_down_.store(script_.nics_down(), std::memory_order_release);  // is_down()
  changes_.fetch_add(1, std::memory_order_release);                  // changes()
}

bool Control::refuses(unsigned nic, bool injected) {
  const std::lock_guard lock(mutex_);
  const bool refused = script_.refuses(nic, injected);
  if (refused) count(Count::kRefused);
  return refused;
}

Effects Control::effects(unsigned nic, bool injected) {
  const std::lock_guard lock(mutex_);
  const Effects effects = script_.effects(nic, injected);
  if (!injected) count(Count::kWritesPosted);
  if (effects.fails_before || effects.fails_after) count(Count::kFailed);
  if (effects.is_lost) count(Count::kLost);
  if (effects.immediates > 1 || effects.completions > 1) count(Count::kDuplicated);
  if (effects.immediates < 1 || effects.completions < 1) count(Count::kDropped);
  return effects;
}

}  // namespace kvrail::scripted

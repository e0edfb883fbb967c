#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "support/scripted_provider/script.h"

namespace kvrail::scripted {

// The script in force: that of the control block, as soon as it has one, else that of the
// environment.
//
// Threads: any.
class Control {
 public:
  // Throws std::invalid_argument for a script of the environment that cannot be read, and
  // std::system_error for a block that cannot be mapped.
  Control();
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Takes a script that has been put into the block; true if there was one. Cheap if not.
  bool refresh();
  // Scripts taken so far.
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }  // apply()

  bool refuses(unsigned nic, bool injected);
  Effects effects(unsigned nic, bool injected);
  bool is_down(unsigned nic) const {
    return (nics_down_.load(std::memory_order_acquire) >> nic & 1) != 0;  // apply()
  }
  std::size_t queue_limit() const { return queue_limit_.load(std::memory_order_relaxed); }

  void count(Count what) { block_->count(what).fetch_add(1, std::memory_order_relaxed); }

 private:
  void apply(Script script);

  ControlBlock own_{};  // where no file is named
  ControlBlock* block_ = &own_;
  std::atomic<std::uint32_t> seen_{0};
  std::atomic<std::uint64_t> changes_{0};
  std::atomic<std::uint32_t> nics_down_{0};
  std::atomic<std::size_t> queue_limit_{~std::size_t{0}};
  std::mutex mutex_;
  Script script_;  // guarded
};

}  // namespace kvrail::scripted

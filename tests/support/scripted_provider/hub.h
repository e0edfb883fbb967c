#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "support/scripted_provider/control.h"
#include "support/scripted_provider/cuda_memory.h"
#include "support/scripted_provider/landing.h"
#include "support/scripted_provider/wire.h"
#include "support/scripted_provider/write.h"

namespace kvrail::scripted {

// The provider's heart: one per process, as long as a domain is open. Writes that are posted wait
// here for their time; a thread carries them out, and lands what other processes send.
//
// Threads: any.
class Hub {
 public:
  // The process's, made if there is none. Throws what Control and the system throw.
  static std::shared_ptr<Hub> get();
  Hub();
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // Writes complete at once and move nothing.
  bool is_null() const { return is_null_; }
  std::uint64_t process() const { return wire_.process(); }
  std::uint64_t new_domain() { return last_domain_.fetch_add(1, std::memory_order_relaxed) + 1; }
  Landing& landing() { return landing_; }
  // Null: there is none.
  const CudaMemory* cuda_memory() const { return cuda_memory_.get(); }

  // Takes a new script, if there is one.
  void check_script();
  // By the script that is in force now.
  bool is_down(unsigned nic) {
    check_script();
    return control_.is_down(nic);
  }
  // 0 or -FI_EAGAIN.
  long post(std::unique_ptr<Write> write);

 private:
  using WritePtr = std::unique_ptr<Write>;
  // Writes that should leave among others wait for them as long as this.
  static constexpr std::int64_t kReorderWaitNs = 50'000;
  static constexpr std::size_t kBatch = 64;
  static constexpr std::int64_t kNever = INT64_MAX;

  void run();
  // Moves what is due to `ready_`, and some of that to `batch`; returns when there is more to
  // do, or -1 at the end.
  std::int64_t take_due(std::int64_t now_ns, std::vector<WritePtr>& batch);
  bool take_ready(std::int64_t now_ns, std::vector<WritePtr>& batch);
  void carry_out(WritePtr write);
  int land_here(const Write& write);
  void fail_writes_of_nics_that_are_down();
  void wake();

  const bool is_null_;
  const std::uint64_t bytes_per_second_;  // of a NIC for which the script says nothing
  const std::unique_ptr<const CudaMemory> cuda_memory_ = CudaMemory::of_environment();
  Control control_;
  Landing landing_{control_};
  Wire wire_{landing_, control_};
  std::atomic<std::uint64_t> last_domain_{0};
  UniqueFd wake_fd_;

  std::mutex mutex_;
  std::vector<WritePtr> waiting_;  // a heap, the first due on top; guarded, as are those below
  std::array<std::int64_t, kMaxNics> nic_free_ns_{};
  std::uint64_t last_number_ = 0;
  std::int64_t sleeps_until_ns_ = 0;
  bool stopping_ = false;

  std::deque<WritePtr> ready_;  // the thread's
  std::mt19937_64 random_{1};   // the thread's
  std::thread thread_;
};

}  // namespace kvrail::scripted

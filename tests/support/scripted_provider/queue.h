#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include <rdma/fi_eq.h>

namespace kvrail::scripted {

// A completion queue of a fixed size: an entry more overruns it, after which it takes nothing.
//
// Threads: any.
class Queue {
 public:
  struct Entry {
    void* context = nullptr;
    std::uint64_t flags = 0;
    std::uint64_t data = 0;
    int error = 0;
  };

  explicit Queue(std::size_t capacity) : capacity_(capacity) {}

  // False if it is overrun or has just been; `limit` may make it shorter than it is.
  bool push(const Entry& entry, std::size_t limit = ~std::size_t{0});
  // Nothing is put into it any more.
  void close();

  long read(fi_cq_data_entry* entries, std::size_t count);
  long read_error(fi_cq_err_entry& error);

 private:
  const std::size_t capacity_;
  std::atomic<bool> has_entries_{false};
  std::mutex mutex_;
  std::deque<Entry> entries_;  // this and below: guarded
  bool overrun_ = false;
  bool closed_ = false;
};

}  // namespace kvrail::scripted

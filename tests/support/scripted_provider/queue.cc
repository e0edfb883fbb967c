#include "support/scripted_provider/queue.h"

#include <algorithm>

#include <rdma/fi_errno.h>

namespace kvrail::scripted {

bool Queue::push(const Entry& entry, std::size_t limit) {
  const std::lock_guard lock(mutex_);
  if (closed_) return true;
  if (overrun_) return false;
  overrun_ = entries_.size() >= std::min(capacity_, limit);
  entries_.push_back(overrun_ ? Entry{nullptr, 0, 0, FI_EOVERRUN} : entry);
  has_entries_.store(true, std::memory_order_release);  // read()
  return !overrun_;
}

void Queue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  entries_.clear();
  has_entries_.store(false, std::memory_order_relaxed);
}

long Queue::read(fi_cq_data_entry* entries, std::size_t count) {
  if (!has_entries_.load(std::memory_order_acquire)) return -FI_EAGAIN;  // push()
  const std::lock_guard lock(mutex_);
  std::size_t taken = 0;
  while (taken < count && !entries_.empty() && entries_.front().error == 0) {
    const Entry& entry = entries_.front();
    entries[taken++] = {entry.context, entry.flags, 0, nullptr, entry.data};
    entries_.pop_front();
  }
  if (taken > 0) {
    has_entries_.store(!entries_.empty(), std::memory_order_relaxed);
    return static_cast<long>(taken);
  }
  return entries_.empty() ? -FI_EAGAIN : -FI_EAVAIL;
}

long Queue::read_error(fi_cq_err_entry& error) {
  const std::lock_guard lock(mutex_);
  if (entries_.empty() || entries_.front().error == 0) return -FI_EAGAIN;
  const Entry& entry = entries_.front();
  error = {};
  error.op_context = entry.context;
  error.flags = entry.flags;
  error.err = entry.error;
  error.prov_errno = entry.error;
  entries_.pop_front();
  has_entries_.store(!entries_.empty(), std::memory_order_relaxed);
  return 1;
}

}  // namespace kvrail::scripted

#include "support/scripted_provider/hub.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include <rdma/fi_errno.h>

#include "base/clock.h"

namespace kvrail::scripted {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) != "0" && *value != '\0';
}

std::uint64_t bandwidth_of_environment() {
  const char* value = std::getenv(kBandwidthVariable);
  return value == nullptr ? 0 : std::strtoull(value, nullptr, 10) * 1'000'000;
}

// The order of a heap that has the first due write on top.
bool is_later(const std::unique_ptr<Write>& a, const std::unique_ptr<Write>& b) {
  return a->due_ns != b->due_ns ? a->due_ns > b->due_ns : a->number > b->number;
}

}  // namespace

std::shared_ptr<Hub> Hub::get() {
  static std::mutex mutex;
  static std::weak_ptr<Hub> hub;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Hub> current = hub.lock();
  if (!current) hub = current = std::make_shared<Hub>();
  return current;
}

Hub::Hub()
    : is_null_(is_set(kNullVariable)),
      bytes_per_second_(bandwidth_of_environment()),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_fd_) throw std::system_error(errno, std::generic_category(), "eventfd");
  thread_ = std::thread([this] { run(); });
}

Hub::~Hub() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void Hub::wake() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_fd_.get(), &one, sizeof one));
}

void Hub::check_script() {
  if (control_.refresh()) wake();
}

long Hub::post(WritePtr write) {
  check_script();
  Port& port = *write->source;
  bool sleeps = false;
  {
    const std::lock_guard lock(mutex_);
    if (port.outstanding.load(std::memory_order_relaxed) >= kQueueSize) return -FI_EAGAIN;
    if (control_.refuses(port.nic, write->is_injected)) return -FI_EAGAIN;
    write->effects = control_.effects(port.nic, write->is_injected);
    write->number = ++last_number_;
    port.outstanding.fetch_add(1, std::memory_order_relaxed);
    std::int64_t left_ns = now_ns();
    std::uint64_t rate = write->effects.bytes_per_second;
    if (rate == 0) rate = bytes_per_second_;
    if (rate != 0) {
      std::int64_t& free_ns = nic_free_ns_[port.nic];
      free_ns = std::max(free_ns, left_ns) +
                static_cast<std::int64_t>(write->size_bytes * 1'000'000'000 / rate);
      left_ns = free_ns;
    }
    write->due_ns = left_ns + write->effects.delay_ns;
    sleeps = write->due_ns < sleeps_until_ns_;
    if (sleeps) sleeps_until_ns_ = 0;
    waiting_.push_back(std::move(write));
    std::push_heap(waiting_.begin(), waiting_.end(), is_later);
  }
  if (sleeps) wake();
  return 0;
}

void Hub::run() {
  // Bandwidths are kept by sleeping, so exactly.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  std::vector<WritePtr> batch;
  std::uint64_t scripts = 0;
  for (;;) {
    batch.clear();
    const std::int64_t next_ns = take_due(now_ns(), batch);
    if (next_ns < 0) return;
    for (WritePtr& write : batch) carry_out(std::move(write));
    if (const std::uint64_t changes = control_.changes(); changes != scripts) {
      scripts = changes;
      fail_writes_of_nics_that_are_down();
    }
    const std::int64_t now = now_ns();
    const std::int64_t timeout_ns =
        next_ns == kNever ? -1 : std::max<std::int64_t>(next_ns - now, 0);
    if (wire_.poll(wake_fd_.get(), timeout_ns)) {
      std::uint64_t count = 0;
      static_cast<void>(!::read(wake_fd_.get(), &count, sizeof count));
    }
    check_script();
  }
}

std::int64_t Hub::take_due(std::int64_t now_ns, std::vector<WritePtr>& batch) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return -1;
  while (!waiting_.empty() && waiting_.front()->due_ns <= now_ns) {
    std::pop_heap(waiting_.begin(), waiting_.end(), is_later);
    ready_.push_back(std::move(waiting_.back()));
    waiting_.pop_back();
  }
  while (batch.size() < kBatch && take_ready(now_ns, batch)) {
  }
  std::int64_t next_ns = waiting_.empty() ? kNever : waiting_.front()->due_ns;
  if (!ready_.empty()) next_ns = std::min(next_ns, ready_.front()->due_ns + kReorderWaitNs);
  if (batch.size() == kBatch) next_ns = now_ns;
  sleeps_until_ns_ = next_ns;
  return next_ns;
}

// The next of those that are due: in order, or one of the first few that wait for company.
bool Hub::take_ready(std::int64_t now_ns, std::vector<WritePtr>& batch) {
  if (ready_.empty()) return false;
  const std::size_t window = ready_.front()->effects.window;
  if (window > 1 && ready_.size() < window && now_ns < ready_.front()->due_ns + kReorderWaitNs) {
    return false;
  }
  const std::size_t among = std::clamp<std::size_t>(window, 1, ready_.size());
  const auto chosen = ready_.begin() + static_cast<std::ptrdiff_t>(random_() % among);
  batch.push_back(std::move(*chosen));
  ready_.erase(chosen);
  return true;
}

void Hub::carry_out(WritePtr write) {
  if (control_.is_down(write->source->nic)) {
    landing_.complete(*write, FI_ENETDOWN);
  } else if (write->source->overrun.load(std::memory_order_relaxed) ||
             write->effects.fails_before) {
    landing_.complete(*write, FI_EIO);
  } else if (write->effects.is_lost) {
    landing_.complete(*write, 0);
  } else if (write->target) {
    const int error = land_here(*write);
    landing_.complete(*write, error == 0 && write->effects.fails_after ? FI_EIO : error);
  } else if (write->address.process == process()) {
    landing_.complete(*write, FI_ECONNREFUSED);
  } else {
    wire_.send(std::move(write));
  }
}

int Hub::land_here(const Write& write) {
  Piece piece{write.key, write.target_address, write.size_bytes, 0, 0};
  do {
    piece.length = std::min(kPieceBytes, write.size_bytes - piece.offset);
    const int error = landing_.land(*write.target, write.source.get(), piece, [&](std::byte* to) {
      return write.copy_source(piece.offset, piece.length, to);
    });
    if (error != 0) return error;
    piece.offset += piece.length;
  } while (piece.offset < write.size_bytes);
  if (!write.has_immediate) return 0;
  return landing_.arrive(*write.target, write.immediate, write.effects.immediates);
}

void Hub::fail_writes_of_nics_that_are_down() {
  const auto is_down = [&](const WritePtr& write) { return control_.is_down(write->source->nic); };
  std::vector<WritePtr> failed;
  {
    const std::lock_guard lock(mutex_);
    const auto first = std::partition(waiting_.begin(), waiting_.end(),
                                      [&](const WritePtr& write) { return !is_down(write); });
    failed.insert(failed.end(), std::make_move_iterator(first),
                  std::make_move_iterator(waiting_.end()));
    waiting_.erase(first, waiting_.end());
    std::make_heap(waiting_.begin(), waiting_.end(), is_later);
  }
  for (const WritePtr& write : failed) landing_.complete(*write, FI_ENETDOWN);
  wire_.fail_writes_of_nics_that_are_down();
  for (const auto& port : landing_.open_ports()) {
    if (control_.is_down(port->nic)) landing_.push(*port, {nullptr, 0, 0, FI_ENETDOWN});
  }
}

}  // namespace kvrail::scripted

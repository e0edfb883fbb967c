#include "support/scripted_provider/landing.h"

#include <cstring>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

namespace kvrail::scripted {

void store(std::byte* to, const std::byte* from, std::size_t size_bytes) {
  if (size_bytes == sizeof(std::uint64_t) &&
      reinterpret_cast<std::uintptr_t>(to) % sizeof(std::uint64_t) == 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    // Whoever polls the word acquires it.
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to))
        .store(word, std::memory_order_release);
  } else if (size_bytes > 0) {
    std::memcpy(to, from, size_bytes);
  }
}

bool Write::copy_source(std::uint64_t offset, std::uint64_t size, std::byte* to) const {
  if (is_injected) {
    store(to, injected.data() + offset, size);
    return true;
  }
  for (std::size_t i = 0; i < segment_count && size > 0; ++i) {
    const Segment& segment = segments[i];
    if (offset >= segment.size_bytes) {
      offset -= segment.size_bytes;
      continue;
    }
    const std::uint64_t part = std::min<std::uint64_t>(size, segment.size_bytes - offset);
    const std::uint64_t from = segment.address + offset;
    if (segment.gpu == nullptr) {
      store(to, reinterpret_cast<const std::byte*>(from), part);
    } else if (!segment.gpu->read(to, from, part)) {
      return false;
    }
    to += part;
    size -= part;
    offset = 0;
  }
  return true;
}

Landing::Landing(Control& control) : control_(control) {
  std::random_device random;
  random_.seed((std::uint64_t{random()} << 32) | random());
}

std::unique_lock<std::mutex> Landing::claim() {
  claims_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  claims_.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}

std::unique_lock<std::mutex> Landing::begin_piece() {
  while (claims_.load(std::memory_order_relaxed) > 0) ::sched_yield();
  return std::unique_lock(mutex_);
}

std::uint64_t Landing::add_region(std::uint64_t domain, std::uint64_t address,
                                  std::uint64_t size_bytes, bool remote_write,
                                  const CudaMemory* gpu) {
  const auto lock = claim();
  while (true) {
    const std::uint64_t key = random_() & 0xFFFF'FFFF;
    if (regions_.try_emplace(key, Region{domain, address, size_bytes, remote_write, gpu}).second) {
      return key;
    }
  }
}

void Landing::remove_region(std::uint64_t key) {
  const auto lock = claim();
  regions_.erase(key);
}

std::shared_ptr<Port> Landing::make_port(std::uint64_t domain, unsigned nic) {
  auto port = std::make_shared<Port>();
  port->domain = domain;
  port->nic = nic;
  const auto lock = claim();
  port->id = random_();
  return port;
}

void Landing::add_port(const std::shared_ptr<Port>& port) {
  const auto lock = claim();
  ports_[port->id] = port;
}

void Landing::close_port(Port& port) {
  const auto lock = claim();
  port.open.store(false, std::memory_order_release);  // complete()
  ports_.erase(port.id);
}

std::shared_ptr<Port> Landing::find_port(std::uint64_t id) {
  const auto lock = claim();
  const auto found = ports_.find(id);
  return found == ports_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Port>> Landing::open_ports() {
  const auto lock = claim();
  std::vector<std::shared_ptr<Port>> all;
  for (const auto& [id, port] : ports_) all.push_back(port);
  return all;
}

int Landing::check(const Port& target, const Piece& piece) const {
  if (!target.open.load(std::memory_order_relaxed)) return FI_ECONNREFUSED;
  if (target.overrun.load(std::memory_order_relaxed)) return FI_EIO;
  if (control_.is_down(target.nic)) return FI_EHOSTUNREACH;
  const auto found = regions_.find(piece.key);
  if (found == regions_.end()) return FI_EACCES;
  const Region& region = found->second;
  const bool inside = piece.size_bytes <= region.size_bytes && piece.address >= region.address &&
                      piece.address - region.address <= region.size_bytes - piece.size_bytes &&
                      piece.length <= piece.size_bytes &&
                      piece.offset <= piece.size_bytes - piece.length;
  return region.domain == target.domain && region.remote_write && inside ? 0 : FI_EACCES;
}

int Landing::arrive(Port& target, std::uint32_t immediate, unsigned times) {
  const auto lock = begin_piece();
  if (!target.open.load(std::memory_order_relaxed)) return FI_ECONNREFUSED;
  for (unsigned i = 0; i < times; ++i) {
    push(target, {nullptr, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, immediate, 0});
  }
  return target.overrun.load(std::memory_order_relaxed) ? FI_EIO : 0;
}

void Landing::push(Port& port, const Queue::Entry& entry) {
  if (port.queue->push(entry, control_.queue_limit())) return;
  if (!port.overrun.exchange(true, std::memory_order_relaxed)) control_.count(Count::kOverruns);
}

void Landing::complete(const Write& write, int error) {
  Port& port = *write.source;
  port.outstanding.fetch_sub(1, std::memory_order_relaxed);
  if (!port.open.load(std::memory_order_acquire)) return;  // close_port()
  if (error != 0) {
    push(port, {write.is_injected ? nullptr : write.context, FI_RMA | FI_WRITE, 0, error});
    return;
  }
  if (write.is_injected) return;
  for (unsigned i = 0; i < write.effects.completions; ++i) {
    push(port, {write.context, FI_RMA | FI_WRITE, 0, 0});
  }
}

}  // namespace kvrail::scripted

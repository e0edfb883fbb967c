#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>
#include <vector>

#include <rdma/fi_errno.h>

#include "support/scripted_provider/control.h"
#include "support/scripted_provider/cuda_memory.h"
#include "support/scripted_provider/write.h"

namespace kvrail::scripted {

// Where a piece of a write is to land: bytes [offset, offset + length) of the write.
struct Piece {
  std::uint64_t key = 0;
  std::uint64_t address = 0;  // of the whole write
  std::uint64_t size_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

inline constexpr std::uint64_t kPieceBytes = 64 * 1024;

// Copies; aligned words as a NIC does it, so that whoever looks at one sees it whole.
void store(std::byte* to, const std::byte* from, std::size_t size_bytes);

// The memory of this process as NICs see it: its registrations and endpoints, and the one lock
// under which anything is copied, so that closing either is a fence.
//
// Threads: any.
class Landing {
 public:
  explicit Landing(Control& control);

  // The key, which nobody can guess.
  std::uint64_t add_region(std::uint64_t domain, std::uint64_t address, std::uint64_t size_bytes,
                           bool remote_write, const CudaMemory* gpu);
  void remove_region(std::uint64_t key);

  std::shared_ptr<Port> make_port(std::uint64_t domain, unsigned nic);
  // From now on it is found; it has its queue.
  void add_port(const std::shared_ptr<Port>& port);
  void close_port(Port& port);
  // Null if there is none.
  std::shared_ptr<Port> find_port(std::uint64_t id);
  std::vector<std::shared_ptr<Port>> open_ports();

  // Has `copy(std::byte* to)` bring the piece to its place, while `source`, if there is one, is
  // open; it may return that it could not. What goes to a GPU makes a stop in memory of the host. 0
  // or an error of libfabric; kSourceClosed for a source that is not.
  template <class Copy>
  int land(Port& target, const Port* source, const Piece& piece, Copy copy);
  // The immediate of a write whose last piece has landed.
  int arrive(Port& target, std::uint32_t immediate, unsigned times);
  // Has `copy()` read a source that is open; false if it is not, or if that is what copy() says.
  template <class Copy>
  bool read(const Port& source, Copy copy);

  // Reports the end of a write of ours.
  void complete(const Write& write, int error);
  void push(Port& port, const Queue::Entry& entry);

  static constexpr int kSourceClosed = -1;

 private:
  struct Region {
    std::uint64_t domain = 0;
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    bool remote_write = false;
    const CudaMemory* gpu = nullptr;
  };

  // For opening and closing, which do not wait for more than one piece.
  std::unique_lock<std::mutex> claim();
  std::unique_lock<std::mutex> begin_piece();
  int check(const Port& target, const Piece& piece) const;
  // Of the region with this key, which is there. Null: the host's.
  const CudaMemory* gpu_of(std::uint64_t key) const { return regions_.find(key)->second.gpu; }

  Control& control_;
  std::atomic<int> claims_{0};
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Region> regions_;  // guarded, as are those below
  std::unordered_map<std::uint64_t, std::shared_ptr<Port>> ports_;
  std::mt19937_64 random_;
  std::vector<std::byte> stop_;  // on the way to a GPU
};

template <class Copy>
int Landing::land(Port& target, const Port* source, const Piece& piece, Copy copy) {
  const auto lock = begin_piece();
  if (source != nullptr && !source->open.load(std::memory_order_relaxed)) return kSourceClosed;
  if (const int error = check(target, piece)) return error;
  const std::uint64_t address = piece.address + piece.offset;
  const CudaMemory* const gpu = gpu_of(piece.key);
  if (gpu == nullptr) return copy(reinterpret_cast<std::byte*>(address)) ? 0 : FI_EFAULT;
  stop_.resize(piece.length);
  return copy(stop_.data()) && gpu->write(address, stop_.data(), piece.length) ? 0 : FI_EFAULT;
}

template <class Copy>
bool Landing::read(const Port& source, Copy copy) {
  const auto lock = begin_piece();
  if (!source.open.load(std::memory_order_relaxed)) return false;
  return copy();
}

}  // namespace kvrail::scripted

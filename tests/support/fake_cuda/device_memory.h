#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace kvrail::fake_cuda {

// How a GPU comes to see what a NIC has written.
enum class WriteOrder { kOwner, kFlush, kNone };

// The memory of all GPUs of a process: mapped twice, at its address without any access, and
// elsewhere for the driver and the NIC.
//
// Threads: any.
class DeviceMemory {
 public:
  ~DeviceMemory();

  // 0: the host has no more.
  std::uint64_t allocate(int device, std::size_t size_bytes);
  bool free(std::uint64_t address);
  // The GPU of an address, with `size_bytes` from there inside one allocation; -1: none.
  int device_of(std::uint64_t address, std::size_t size_bytes);
  bool synchronize_copies(std::uint64_t address);

  // False outside allocations.
  bool write(std::uint64_t to, const void* from, std::size_t size_bytes);
  bool read(void* to, std::uint64_t from, std::size_t size_bytes);
  // Of a NIC. Refused for an allocation whose copies are not synchronised with the NIC's.
  bool nic_write(std::uint64_t to, const void* from, std::size_t size_bytes, WriteOrder order);
  bool nic_read(void* to, std::uint64_t from, std::size_t size_bytes);
  // Of one GPU.
  void flush(int device);

 private:
  struct Allocation {
    int device = 0;
    std::size_t size_bytes = 0;
    std::size_t mapped_bytes = 0;
    std::byte* view = nullptr;
    bool synchronized_copies = false;
  };
  struct Landed {
    int device = 0;
    std::uint64_t to = 0;
    std::vector<std::byte> bytes;
  };

  // Both guarded by mutex_.
  Allocation* find(std::uint64_t address, std::size_t size_bytes);
  std::byte* view_of(std::uint64_t address, std::size_t size_bytes);

  std::mutex mutex_;
  std::map<std::uint64_t, Allocation> allocations_;
  std::vector<Landed> landed_;  // and not flushed
};

}  // namespace kvrail::fake_cuda

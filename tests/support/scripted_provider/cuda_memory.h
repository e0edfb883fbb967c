#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kvrail::scripted {

// The way to the memory of the fake CUDA driver's GPUs, which no load or store reaches: what a NIC
// does by peer access.
//
// Threads: any.
class CudaMemory {
 public:
  // Of the driver that the environment names; null if it names none. Throws std::invalid_argument
  // for a library that is not the fake driver.
  static std::unique_ptr<const CudaMemory> of_environment();

  // False for memory that is no GPU's, or not ready for NICs.
  bool write(std::uint64_t to, const std::byte* from, std::size_t size_bytes) const {
    return size_bytes == 0 || write_(to, from, size_bytes) == 0;
  }
  bool read(std::byte* to, std::uint64_t from, std::size_t size_bytes) const {
    return size_bytes == 0 || read_(to, from, size_bytes) == 0;
  }

 private:
  struct Closer {
    void operator()(void* library) const;
  };
  explicit CudaMemory(const char* path);

  std::unique_ptr<void, Closer> library_;
  int (*write_)(std::uint64_t to, const void* from, std::size_t size_bytes) = nullptr;
  int (*read_)(void* to, std::uint64_t from, std::size_t size_bytes) = nullptr;
};

}  // namespace kvrail::scripted

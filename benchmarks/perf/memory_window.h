#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvrail {
class CudaDevice;
}

namespace kvrail::perf {

// Memory as the host can read it: where it lies, or through a buffer where it is a GPU's. Fast if
// what is asked for lies in rising order. Threads: one.
class MemoryWindow {
 public:
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20;

  // A null `gpu`: the host's memory. It and the memory outlive the window.
  MemoryWindow(const std::byte* data, std::uint64_t size_bytes, const CudaDevice* gpu);

  // `size_bytes`, at most kMaxBytes, from `offset`; good until the next call. Throws Error
  // (kFabric).
  const std::byte* at(std::uint64_t offset, std::uint64_t size_bytes);

 private:
  const std::byte* const data_;
  const std::uint64_t size_bytes_;
  const CudaDevice* const gpu_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffered_from_ = 0;
};

}  // namespace kvrail::perf

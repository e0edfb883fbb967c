#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

namespace mock_engine {

// Anonymous memory of the host: what a GPU's memory is to a real engine.
class HostMemory {
 public:
  explicit HostMemory(std::size_t size_bytes) {
    void* data =
        mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      throw std::system_error(errno, std::generic_category(),
                              "memory for the KV cache (--memory-gib)");
    }
    bytes_ = {static_cast<std::byte*>(data), size_bytes};
  }
  HostMemory(HostMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  HostMemory& operator=(HostMemory&&) = delete;
  ~HostMemory() {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  }

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace mock_engine

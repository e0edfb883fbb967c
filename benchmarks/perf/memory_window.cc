#include "perf/memory_window.h"

#include <algorithm>

#include "memory/cuda_device.h"

namespace kvrail::perf {

MemoryWindow::MemoryWindow(const std::byte* data, std::uint64_t size_bytes, const CudaDevice* gpu)
    : data_(data), size_bytes_(size_bytes), gpu_(gpu) {}

const std::byte* MemoryWindow::at(std::uint64_t offset, std::uint64_t size_bytes) {
  if (gpu_ == nullptr) return data_ + offset;
  if (offset < buffered_from_ || offset + size_bytes > buffered_from_ + buffer_.size()) {
    buffer_.resize(std::min(kMaxBytes, size_bytes_ - offset));
    buffered_from_ = offset;
    gpu_->copy_to_host(buffer_.data(), data_ + offset, buffer_.size());
  }
  return buffer_.data() + (offset - buffered_from_);
}

}  // namespace kvrail::perf

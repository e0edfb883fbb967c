#include "device_memory/gpu_pages.h"

#include <algorithm>

namespace kvrail {

TransferEngineOptions options_with(std::optional<std::uint16_t> gpu, const std::string& provider) {
  TransferEngineOptions options;
  options.provider = provider;
  options.cuda_driver = kFakeDriver;
  if (gpu) options.device_groups[0].cuda_device = CudaDeviceId(*gpu);
  return options;
}

GpuPages::GpuPages(std::optional<std::uint16_t> gpu, std::uint64_t size_bytes)
    : size_bytes_(size_bytes) {
  const std::uint64_t all = size_bytes + 2 * kMarginBytes;
  if (gpu) {
    gpu_ = std::make_unique<CudaDevice>(CudaDriver::load(kFakeDriver), CudaDeviceId(*gpu));
    begin_ = gpu_->allocate(all);
  } else {
    host_.resize(all);
    begin_ = host_.data();
  }
  put_all(std::vector<std::byte>(all, kCanary));
}

GpuPages::~GpuPages() {
  if (gpu_) gpu_->free(begin_);
}

void GpuPages::put_all(std::span<const std::byte> bytes) {
  if (gpu_) {
    gpu_->copy_to_device(begin_, bytes.data(), bytes.size());
  } else {
    std::copy(bytes.begin(), bytes.end(), begin_);
  }
}

std::vector<std::byte> GpuPages::get_all() const {
  std::vector<std::byte> bytes(size_bytes_ + 2 * kMarginBytes);
  if (gpu_) {
    gpu_->copy_to_host(bytes.data(), begin_, bytes.size());
  } else {
    std::copy(begin_, begin_ + bytes.size(), bytes.begin());
  }
  return bytes;
}

}  // namespace kvrail

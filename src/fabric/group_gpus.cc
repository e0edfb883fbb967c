#include "fabric/group_gpus.h"

#include <algorithm>

#include <fmt/format.h>

namespace kvrail {
namespace {

std::string place(std::optional<CudaDeviceId> gpu) {
  return gpu ? fmt::format("GPU {}", gpu->value()) : "the host";
}

const char* text(CudaDevice::WriteOrder order) {
  switch (order) {
    case CudaDevice::WriteOrder::kOwner:
      return "it sees what arrives at once";
    case CudaDevice::WriteOrder::kFlush:
      return "it sees what has arrived after a flush, which each counter that is reached brings";
    case CudaDevice::WriteOrder::kNone:
      break;
  }
  return "it would not see what arrives, so that its memory is not registered";
}

}  // namespace

bool wants_gpu_memory(const TransferEngineOptions& options) {
  return std::any_of(options.device_groups.begin(), options.device_groups.end(),
                     [](const DeviceGroupOptions& group) { return group.cuda_device.has_value(); });
}

Status show_arrivals(const CudaDevice* gpu) {
  if (gpu == nullptr || gpu->write_order() != CudaDevice::WriteOrder::kFlush) return {};
  if (gpu->flush_remote_writes()) return {};
  return {ErrorCode::kFabric,
          fmt::format("what has arrived in the memory of GPU {} could not be flushed, so that its "
                      "kernels may not see it",
                      gpu->id().value())};
}

GroupGpus::GroupGpus(const TransferEngineOptions& options) : gpus_(options.device_groups.size()) {
  if (!wants_gpu_memory(options)) return;
  const auto driver = CudaDriver::load(options.cuda_driver);
  for (std::size_t group = 0; group < gpus_.size(); ++group) {
    const auto& wanted = options.device_groups[group].cuda_device;
    if (wanted) gpus_[group] = std::make_shared<const CudaDevice>(driver, *wanted);
  }
}

std::optional<CudaDeviceId> GroupGpus::prepare(DeviceGroupId group, const std::byte* data,
                                               std::uint64_t size_bytes) const {
  const CudaDevice* const gpu = of(group).get();
  if (gpu == nullptr) return std::nullopt;
  const std::optional<CudaDeviceId> first = gpu->driver().device_of(data);
  const std::optional<CudaDeviceId> last = gpu->driver().device_of(data + size_bytes - 1);
  if (first != last) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot register {} bytes at {}: they begin in the memory of {} and "
                            "end in that of {}; register each allocation by itself",
                            size_bytes, fmt::ptr(data), place(first), place(last)));
  }
  if (!first) return std::nullopt;
  if (*first != gpu->id()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot register memory of GPU {} with device group {}, whose "
                            "cuda_device is GPU {}: register it with the group of its GPU",
                            first->value(), group.value(), gpu->id().value()));
  }
  if (gpu->write_order() == CudaDevice::WriteOrder::kNone) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("cannot register memory of GPU {} ({}): it neither orders a NIC's "
                            "writes nor lets them be flushed, so that it would not see what "
                            "arrives; use the host's memory",
                            gpu->id().value(), gpu->name()));
  }
  // The two ends may be of two allocations side by side.
  gpu->synchronize_copies(data);
  gpu->synchronize_copies(data + size_bytes - 1);
  return first;
}

std::string GroupGpus::describe() const {
  std::string lines;
  for (std::size_t group = 0; group < gpus_.size(); ++group) {
    const CudaDevice* const gpu = gpus_[group].get();
    if (gpu == nullptr) continue;
    lines += fmt::format("\ndevice group {}: GPU {} ({}); {}", group, gpu->id().value(),
                         gpu->name(), text(gpu->write_order()));
  }
  return lines;
}

}  // namespace kvrail

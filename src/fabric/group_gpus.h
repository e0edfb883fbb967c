#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "kvrail/fabric_options.h"
#include "kvrail/ids.h"
#include "memory/cuda_device.h"

namespace kvrail {

// Whether a device group has memory of a GPU, so that providers must reach it.
bool wants_gpu_memory(const TransferEngineOptions& options);

// Has the GPU's kernels see what has arrived before this, if that takes a flush; `gpu` may be null.
// kFabric if the flush failed.
Status show_arrivals(const CudaDevice* gpu);

// The GPUs of an engine's device groups.
//
// Threads: any; constant after construction.
class GroupGpus {
 public:
  // Loads the driver if a group has a GPU, and never else. Throws Error: what CudaDriver and
  // CudaDevice throw.
  explicit GroupGpus(const TransferEngineOptions& options);

  // Null: the group has the host's memory only.
  const std::shared_ptr<const CudaDevice>& of(DeviceGroupId group) const {
    return gpus_[group.value()];
  }

  // The GPU that the memory lies in, which is ready to be registered then; none: the host's. Throws
  // Error: kInvalidArgument for memory that is not one GPU's, or not the group's; kUnsupported for
  // a GPU that would not see what arrives; kFabric.
  std::optional<CudaDeviceId> prepare(DeviceGroupId group, const std::byte* data,
                                      std::uint64_t size_bytes) const;

  // A line for each group that has one, each after a newline.
  std::string describe() const;

 private:
  std::vector<std::shared_ptr<const CudaDevice>> gpus_;
};

}  // namespace kvrail

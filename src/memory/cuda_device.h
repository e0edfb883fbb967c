#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kvrail/ids.h"
#include "memory/cuda_driver.h"

namespace kvrail {

// One GPU, by its primary context, which is the one that CUDA's runtime and the frameworks use.
//
// Threads: any; every call makes the context current for its own time and leaves the thread's own
// as it was.
class CudaDevice {
 public:
  // How the GPU's own kernels come to see what a NIC has written.
  enum class WriteOrder {
    kOwner,  // as it has landed
    kFlush,  // after flush_remote_writes()
    kNone,   // not at all
  };

  // Throws Error: kNotFound for a GPU that does not exist, kFabric.
  CudaDevice(std::shared_ptr<const CudaDriver> driver, CudaDeviceId id);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDriver& driver() const { return *driver_; }
  CudaDeviceId id() const { return id_; }
  const std::string& name() const { return name_; }
  WriteOrder write_order() const { return write_order_; }

  // Has the driver order its own copies of this allocation with those of a NIC: needed before it is
  // registered. Throws Error (kFabric).
  void synchronize_copies(const void* address) const;
  // What has landed in the GPU's memory is seen by its kernels after this. False if it failed.
  bool flush_remote_writes() const;

  // Memory of the GPU, and copies that have ended when they return. All throw Error (kFabric).
  std::byte* allocate(std::uint64_t size_bytes) const;
  void free(std::byte* address) const;
  void copy_to_device(std::byte* to, const std::byte* from, std::uint64_t size_bytes) const;
  void copy_to_host(std::byte* to, const std::byte* from, std::uint64_t size_bytes) const;

 private:
  // What `call` returns when it is made with the context current, or why that was not possible.
  template <class Call>
  CudaCalls::Result in_context(Call call) const;
  WriteOrder ask_write_order() const;
  int attribute(int which) const;

  std::shared_ptr<const CudaDriver> driver_;
  CudaDeviceId id_;
  CudaCalls::Device device_ = 0;
  CudaCalls::Context context_ = nullptr;
  std::string name_;
  WriteOrder write_order_ = WriteOrder::kNone;
};

}  // namespace kvrail

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kvrail/ids.h"

namespace kvrail {

// The entry points of the CUDA driver that kvrail calls, loaded at run time: neither building nor
// running needs CUDA. Names, values and structures are those of the driver API's cuda.h, 11.3 and
// newer.
struct CudaCalls {
  using Result = int;  // CUresult; 0 is success
  using Device = int;
  using Context = void*;
  using Pointer = std::uint64_t;  // CUdeviceptr

  Result (*init)(unsigned flags);
  Result (*error_string)(Result result, const char** text);
  Result (*device_count)(int* count);
  Result (*device_get)(Device* device, int ordinal);
  Result (*device_name)(char* name, int length, Device device);
  Result (*device_attribute)(int* value, int attribute, Device device);
  Result (*retain_primary_context)(Context* context, Device device);
  Result (*release_primary_context)(Device device);
  Result (*push_context)(Context context);
  Result (*pop_context)(Context* context);
  Result (*pointer_attribute)(void* value, int attribute, Pointer pointer);
  Result (*set_pointer_attribute)(const void* value, int attribute, Pointer pointer);
  Result (*allocate)(Pointer* pointer, std::size_t size_bytes);
  Result (*free)(Pointer pointer);
  Result (*copy_to_device)(Pointer to, const void* from, std::size_t size_bytes);
  Result (*copy_to_host)(void* to, Pointer from, std::size_t size_bytes);
  Result (*flush_remote_writes)(int target, int scope);
};

// A CUDA driver, loaded and initialised.
//
// Threads: any. It stays loaded as long as any object made with it lives.
class CudaDriver {
 public:
  static constexpr const char* kLibrary = "libcuda.so.1";

  // Throws Error (kUnsupported): no such library, one without an entry point, or no GPU that it can
  // use.
  static std::shared_ptr<const CudaDriver> load(const std::string& library = kLibrary);

  // Use load().
  explicit CudaDriver(const std::string& library);
  ~CudaDriver();
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  const CudaCalls& calls() const { return calls_; }
  std::uint16_t device_count() const { return device_count_; }

  // The GPU whose memory is at `address`; none for the host's memory, pinned or not.
  std::optional<CudaDeviceId> device_of(const void* address) const;

  // "out of memory (2)".
  std::string text(CudaCalls::Result result) const;
  // Throws Error (kFabric) that names what failed.
  void check(CudaCalls::Result result, const std::string& what) const;

 private:
  void load_calls(const std::string& library);

  void* library_ = nullptr;
  CudaCalls calls_{};
  std::uint16_t device_count_ = 0;
};

}  // namespace kvrail

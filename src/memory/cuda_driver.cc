#include "memory/cuda_driver.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

// CU_POINTER_ATTRIBUTE_..., CU_MEMORYTYPE_DEVICE.
constexpr int kMemoryType = 2;
constexpr int kDeviceOrdinal = 9;
constexpr unsigned kDeviceMemory = 2;

[[noreturn]] void refuse(const std::string& library, const std::string& why) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("the CUDA driver '{}' cannot be used: {}; install the driver of the GPU, "
                          "or leave cuda_device out to use the host's memory",
                          library, why));
}

}  // namespace

std::shared_ptr<const CudaDriver> CudaDriver::load(const std::string& library) {
  return std::make_shared<const CudaDriver>(library);
}

CudaDriver::CudaDriver(const std::string& library)
    // Never unloaded: it has threads and handlers of its own once it is initialised.
    : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (library_ == nullptr) {
    const char* const why = ::dlerror();
    refuse(library, why == nullptr ? "it cannot be loaded" : why);
  }
  try {
    load_calls(library);
    if (const auto result = calls_.init(0)) refuse(library, text(result));
    int count = 0;
    if (const auto result = calls_.device_count(&count)) refuse(library, text(result));
    if (count <= 0) refuse(library, "it finds no GPU");
    device_count_ = static_cast<std::uint16_t>(count);
  } catch (...) {
    ::dlclose(library_);
    throw;
  }
}

CudaDriver::~CudaDriver() { ::dlclose(library_); }

void CudaDriver::load_calls(const std::string& library) {
  const auto find = [&](auto& call, const char* name) {
    void* const symbol = ::dlsym(library_, name);
    if (symbol == nullptr) refuse(library, fmt::format("it has no {} (CUDA 11.3 has)", name));
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(symbol);
  };
  find(calls_.init, "cuInit");
  find(calls_.error_string, "cuGetErrorString");
  find(calls_.device_count, "cuDeviceGetCount");
  find(calls_.device_get, "cuDeviceGet");
  find(calls_.device_name, "cuDeviceGetName");
  find(calls_.device_attribute, "cuDeviceGetAttribute");
  find(calls_.retain_primary_context, "cuDevicePrimaryCtxRetain");
  find(calls_.release_primary_context, "cuDevicePrimaryCtxRelease_v2");
  find(calls_.push_context, "cuCtxPushCurrent_v2");
  find(calls_.pop_context, "cuCtxPopCurrent_v2");
  find(calls_.pointer_attribute, "cuPointerGetAttribute");
  find(calls_.set_pointer_attribute, "cuPointerSetAttribute");
  find(calls_.allocate, "cuMemAlloc_v2");
  find(calls_.free, "cuMemFree_v2");
  find(calls_.copy_to_device, "cuMemcpyHtoD_v2");
  find(calls_.copy_to_host, "cuMemcpyDtoH_v2");
  find(calls_.flush_remote_writes, "cuFlushGPUDirectRDMAWrites");
}

std::optional<CudaDeviceId> CudaDriver::device_of(const void* address) const {
  const auto pointer = reinterpret_cast<CudaCalls::Pointer>(address);
  unsigned type = 0;
  // The driver does not know memory that was not allocated through it.
  if (calls_.pointer_attribute(&type, kMemoryType, pointer) != 0 || type != kDeviceMemory) {
    return std::nullopt;
  }
  int ordinal = 0;
  check(calls_.pointer_attribute(&ordinal, kDeviceOrdinal, pointer),
        fmt::format("asking for the GPU of the memory at {}", fmt::ptr(address)));
  return CudaDeviceId(static_cast<std::uint16_t>(ordinal));
}

std::string CudaDriver::text(CudaCalls::Result result) const {
  const char* text = nullptr;
  const bool known = calls_.error_string(result, &text) == 0 && text != nullptr;
  return fmt::format("{} ({})", known ? text : "error", result);
}

void CudaDriver::check(CudaCalls::Result result, const std::string& what) const {
  if (result == 0) return;
  throw Error(ErrorCode::kFabric, fmt::format("CUDA: {} failed: {}", what, text(result)));
}

}  // namespace kvrail

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/fake_cuda/device_memory.h"

namespace kvrail::fake_cuda {
namespace {

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidContext = 201;
constexpr int kNotSupported = 801;

constexpr int kMaxDevices = 64;

DeviceMemory& memory() {
  static DeviceMemory memory;
  return memory;
}

int device_count() {
  const char* text = std::getenv("KVRAIL_FAKE_CUDA_DEVICES");
  return text == nullptr ? 2 : std::atoi(text);
}

WriteOrder write_order() {
  const char* text = std::getenv("KVRAIL_FAKE_CUDA_ORDER");
  if (text == nullptr || std::strcmp(text, "flush") == 0) return WriteOrder::kFlush;
  return std::strcmp(text, "owner") == 0 ? WriteOrder::kOwner : WriteOrder::kNone;
}

// The primary context of GPU d is d + 1; 0 is none.
struct Contexts {
  static constexpr int kMost = 16;
  std::uintptr_t stack[kMost] = {};
  int depth = 0;
};

Contexts& contexts() {
  thread_local Contexts contexts;
  return contexts;
}

int current_device() {
  const Contexts& stack = contexts();
  return stack.depth == 0 ? -1 : static_cast<int>(stack.stack[stack.depth - 1]) - 1;
}

}  // namespace
}  // namespace kvrail::fake_cuda

using namespace kvrail::fake_cuda;

#define KVRAIL_FAKE_CUDA extern "C" __attribute__((visibility("default")))

KVRAIL_FAKE_CUDA int cuInit(unsigned) { return device_count() > 0 ? 0 : kNoDevice; }

KVRAIL_FAKE_CUDA int cuGetErrorString(int result, const char** text) {
  switch (result) {
    case 0:
      *text = "no error";
      return 0;
    case kInvalidValue:
      *text = "invalid argument";
      return 0;
    case kOutOfMemory:
      *text = "out of memory";
      return 0;
    case kNoDevice:
      *text = "no CUDA-capable device is detected";
      return 0;
    case kInvalidDevice:
      *text = "invalid device ordinal";
      return 0;
    case kInvalidContext:
      *text = "invalid device context";
      return 0;
    case kNotSupported:
      *text = "operation not supported";
      return 0;
    default:
      *text = nullptr;
      return kInvalidValue;
  }
}

KVRAIL_FAKE_CUDA int cuDeviceGetCount(int* count) {
  *count = device_count();
  return 0;
}

KVRAIL_FAKE_CUDA int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= device_count()) return kInvalidDevice;
  *device = ordinal;
  return 0;
}

KVRAIL_FAKE_CUDA int cuDeviceGetName(char* name, int length, int device) {
  std::snprintf(name, static_cast<std::size_t>(length), "fake GPU %d", device);
  return 0;
}

KVRAIL_FAKE_CUDA int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (device < 0 || device >= device_count()) return kInvalidDevice;
  switch (attribute) {
    case 116:
      *value = 1;
      return 0;
    case 117:
      *value = write_order() == WriteOrder::kNone ? 0 : 1;
      return 0;
    case 118:
      *value = write_order() == WriteOrder::kOwner ? 100 : 0;
      return 0;
    default:
      return kInvalidValue;
  }
}

KVRAIL_FAKE_CUDA int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device < 0 || device >= device_count()) return kInvalidDevice;
  *context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(device) + 1);
  return 0;
}

KVRAIL_FAKE_CUDA int cuDevicePrimaryCtxRelease_v2(int) { return 0; }

KVRAIL_FAKE_CUDA int cuCtxPushCurrent_v2(void* context) {
  Contexts& stack = contexts();
  const auto value = reinterpret_cast<std::uintptr_t>(context);
  if (value == 0 || value > kMaxDevices || stack.depth == Contexts::kMost) return kInvalidContext;
  stack.stack[stack.depth++] = value;
  return 0;
}

KVRAIL_FAKE_CUDA int cuCtxPopCurrent_v2(void** context) {
  Contexts& stack = contexts();
  if (stack.depth == 0) return kInvalidContext;
  *context = reinterpret_cast<void*>(stack.stack[--stack.depth]);
  return 0;
}

KVRAIL_FAKE_CUDA int cuPointerGetAttribute(void* value, int attribute, std::uint64_t pointer) {
  const int device = memory().device_of(pointer, 1);
  if (device < 0) return kInvalidValue;
  switch (attribute) {
    case 2:
      *static_cast<unsigned*>(value) = 2;
      return 0;
    case 9:
      *static_cast<int*>(value) = device;
      return 0;
    default:
      return kInvalidValue;
  }
}

KVRAIL_FAKE_CUDA int cuPointerSetAttribute(const void* value, int attribute,
                                           std::uint64_t pointer) {
  if (attribute != 6 || *static_cast<const unsigned*>(value) != 1) return kInvalidValue;
  if (current_device() < 0) return kInvalidContext;
  return memory().synchronize_copies(pointer) ? 0 : kInvalidValue;
}

KVRAIL_FAKE_CUDA int cuMemAlloc_v2(std::uint64_t* pointer, std::size_t size_bytes) {
  if (current_device() < 0) return kInvalidContext;
  if (size_bytes == 0) return kInvalidValue;
  *pointer = memory().allocate(current_device(), size_bytes);
  return *pointer != 0 ? 0 : kOutOfMemory;
}

KVRAIL_FAKE_CUDA int cuMemFree_v2(std::uint64_t pointer) {
  return memory().free(pointer) ? 0 : kInvalidValue;
}

KVRAIL_FAKE_CUDA int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t size_bytes) {
  if (current_device() < 0) return kInvalidContext;
  return memory().write(to, from, size_bytes) ? 0 : kInvalidValue;
}

KVRAIL_FAKE_CUDA int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t size_bytes) {
  if (current_device() < 0) return kInvalidContext;
  return memory().read(to, from, size_bytes) ? 0 : kInvalidValue;
}

KVRAIL_FAKE_CUDA int cuFlushGPUDirectRDMAWrites(int target, int scope) {
  if (target != 0 || scope < 100) return kInvalidValue;
  if (write_order() == WriteOrder::kNone) return kNotSupported;
  if (current_device() < 0) return kInvalidContext;
  memory().flush(current_device());
  return 0;
}

// What a NIC does with the memory of a GPU; 0 as for success.
KVRAIL_FAKE_CUDA int kvrail_fake_cuda_write(std::uint64_t to, const void* from,
                                            std::size_t size_bytes) {
  return memory().nic_write(to, from, size_bytes, write_order()) ? 0 : kInvalidValue;
}

KVRAIL_FAKE_CUDA int kvrail_fake_cuda_read(void* to, std::uint64_t from, std::size_t size_bytes) {
  return memory().nic_read(to, from, size_bytes) ? 0 : kInvalidValue;
}

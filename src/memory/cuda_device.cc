#include "memory/cuda_device.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_...
constexpr int kFlushWritesOptions = 117;
constexpr int kWritesOrdering = 118;
// CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST
constexpr int kFlushByHost = 1;
// CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER; above it, all devices see them.
constexpr int kOrderedForOwner = 100;
// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
constexpr int kSyncMemops = 6;
// CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, ..._TO_OWNER
constexpr int kFlushCurrentContext = 0;
constexpr int kFlushToOwner = 100;

CudaCalls::Pointer pointer_to(const void* address) {
  return reinterpret_cast<CudaCalls::Pointer>(address);
}

}  // namespace

CudaDevice::CudaDevice(std::shared_ptr<const CudaDriver> driver, CudaDeviceId id)
    : driver_(std::move(driver)), id_(id) {
  if (id_.value() >= driver_->device_count()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("GPU {} does not exist: the CUDA driver finds {}; set cuda_device "
                            "below that, and look at CUDA_VISIBLE_DEVICES",
                            id_.value(), driver_->device_count()));
  }
  const CudaCalls& calls = driver_->calls();
  const auto what = [&](const char* doing) { return fmt::format("{} GPU {}", doing, id_.value()); };
  driver_->check(calls.device_get(&device_, id_.value()), what("finding"));
  std::array<char, 128> name{};
  driver_->check(calls.device_name(name.data(), static_cast<int>(name.size() - 1), device_),
                 what("naming"));
  name_ = name.data();
  write_order_ = ask_write_order();
  driver_->check(calls.retain_primary_context(&context_, device_), what("opening"));
}

CudaDevice::~CudaDevice() { driver_->calls().release_primary_context(device_); }

int CudaDevice::attribute(int which) const {
  int value = 0;
  driver_->check(driver_->calls().device_attribute(&value, which, device_),
                 fmt::format("asking GPU {} for attribute {}", id_.value(), which));
  return value;
}

CudaDevice::WriteOrder CudaDevice::ask_write_order() const {
  if (attribute(kWritesOrdering) >= kOrderedForOwner) return WriteOrder::kOwner;
  return (attribute(kFlushWritesOptions) & kFlushByHost) != 0 ? WriteOrder::kFlush
                                                              : WriteOrder::kNone;
}

template <class Call>
CudaCalls::Result CudaDevice::in_context(Call call) const {
  const CudaCalls& calls = driver_->calls();
  if (const auto result = calls.push_context(context_)) return result;
  const CudaCalls::Result result = call(calls);
  CudaCalls::Context popped = nullptr;
  calls.pop_context(&popped);
  return result;
}

void CudaDevice::synchronize_copies(const void* address) const {
  const unsigned on = 1;
  const auto result = in_context([&](const CudaCalls& calls) {
    return calls.set_pointer_attribute(&on, kSyncMemops, pointer_to(address));
  });
  driver_->check(result,
                 fmt::format("having copies of the memory at {} synchronised", fmt::ptr(address)));
}

bool CudaDevice::flush_remote_writes() const {
  return in_context([](const CudaCalls& calls) {
           return calls.flush_remote_writes(kFlushCurrentContext, kFlushToOwner);
         }) == 0;
}

std::byte* CudaDevice::allocate(std::uint64_t size_bytes) const {
  CudaCalls::Pointer pointer = 0;
  const auto result =
      in_context([&](const CudaCalls& calls) { return calls.allocate(&pointer, size_bytes); });
  driver_->check(result, fmt::format("allocating {} bytes on GPU {}", size_bytes, id_.value()));
  return reinterpret_cast<std::byte*>(pointer);
}

void CudaDevice::free(std::byte* address) const {
  const auto result =
      in_context([&](const CudaCalls& calls) { return calls.free(pointer_to(address)); });
  driver_->check(result, fmt::format("freeing memory of GPU {}", id_.value()));
}

void CudaDevice::copy_to_device(std::byte* to, const std::byte* from,
                                std::uint64_t size_bytes) const {
  const auto result = in_context([&](const CudaCalls& calls) {
    return calls.copy_to_device(pointer_to(to), from, size_bytes);
  });
  driver_->check(result, fmt::format("copying {} bytes to GPU {}", size_bytes, id_.value()));
}

void CudaDevice::copy_to_host(std::byte* to, const std::byte* from,
                              std::uint64_t size_bytes) const {
  const auto result = in_context(
      [&](const CudaCalls& calls) { return calls.copy_to_host(to, pointer_to(from), size_bytes); });
  driver_->check(result, fmt::format("copying {} bytes from GPU {}", size_bytes, id_.value()));
}

}  // namespace kvrail

#include "support/fake_cuda/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace kvrail::fake_cuda {

DeviceMemory::~DeviceMemory() {
  for (const auto& [address, allocation] : allocations_) {
    ::munmap(reinterpret_cast<void*>(address), allocation.mapped_bytes);
    ::munmap(allocation.view, allocation.mapped_bytes);
  }
}

std::uint64_t DeviceMemory::allocate(int device, std::size_t size_bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t mapped = (size_bytes + page - 1) / page * page;
  const int file = ::memfd_create("fake-cuda", MFD_CLOEXEC);
  if (file < 0) return 0;
  void* address = MAP_FAILED;
  void* view = MAP_FAILED;
  if (mapped >= size_bytes && ::ftruncate(file, static_cast<off_t>(mapped)) == 0) {
    address = ::mmap(nullptr, mapped, PROT_NONE, MAP_SHARED, file, 0);
    view = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  ::close(file);
  if (address == MAP_FAILED || view == MAP_FAILED) {
    if (address != MAP_FAILED) ::munmap(address, mapped);
    if (view != MAP_FAILED) ::munmap(view, mapped);
    return 0;
  }
  const auto place = reinterpret_cast<std::uint64_t>(address);
  const std::lock_guard lock(mutex_);
  allocations_[place] = {device, size_bytes, mapped, static_cast<std::byte*>(view), false};
  return place;
}

bool DeviceMemory::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return false;
  const Allocation& allocation = found->second;
  std::erase_if(landed_, [&](const Landed& landed) {
    return landed.to >= address && landed.to - address < allocation.size_bytes;
  });
  ::munmap(reinterpret_cast<void*>(address), allocation.mapped_bytes);
  ::munmap(allocation.view, allocation.mapped_bytes);
  allocations_.erase(found);
  return true;
}

DeviceMemory::Allocation* DeviceMemory::find(std::uint64_t address, std::size_t size_bytes) {
  auto found = allocations_.upper_bound(address);
  if (found == allocations_.begin()) return nullptr;
  --found;
  Allocation& allocation = found->second;
  const std::uint64_t offset = address - found->first;
  if (offset >= allocation.size_bytes || size_bytes > allocation.size_bytes - offset) {
    return nullptr;
  }
  return &allocation;
}

std::byte* DeviceMemory::view_of(std::uint64_t address, std::size_t size_bytes) {
  const Allocation* allocation = find(address, size_bytes);
  if (allocation == nullptr) return nullptr;
  return allocation->view + (address - std::prev(allocations_.upper_bound(address))->first);
}

int DeviceMemory::device_of(std::uint64_t address, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const Allocation* allocation = find(address, size_bytes);
  return allocation == nullptr ? -1 : allocation->device;
}

bool DeviceMemory::synchronize_copies(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  Allocation* allocation = find(address, 1);
  if (allocation != nullptr) allocation->synchronized_copies = true;
  return allocation != nullptr;
}

bool DeviceMemory::write(std::uint64_t to, const void* from, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  std::byte* const view = view_of(to, size_bytes);
  if (view != nullptr) std::memcpy(view, from, size_bytes);
  return view != nullptr;
}

bool DeviceMemory::read(void* to, std::uint64_t from, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const std::byte* const view = view_of(from, size_bytes);
  if (view != nullptr) std::memcpy(to, view, size_bytes);
  return view != nullptr;
}

bool DeviceMemory::nic_write(std::uint64_t to, const void* from, std::size_t size_bytes,
                             WriteOrder order) {
  const std::lock_guard lock(mutex_);
  const Allocation* allocation = find(to, size_bytes);
  if (allocation == nullptr || !allocation->synchronized_copies) return false;
  if (order == WriteOrder::kOwner) {
    std::memcpy(view_of(to, size_bytes), from, size_bytes);
  } else {
    const auto* bytes = static_cast<const std::byte*>(from);
    landed_.push_back({allocation->device, to, {bytes, bytes + size_bytes}});
  }
  return true;
}

bool DeviceMemory::nic_read(void* to, std::uint64_t from, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const Allocation* allocation = find(from, size_bytes);
  if (allocation == nullptr || !allocation->synchronized_copies) return false;
  std::memcpy(to, view_of(from, size_bytes), size_bytes);
  return true;
}

void DeviceMemory::flush(int device) {
  const std::lock_guard lock(mutex_);
  std::erase_if(landed_, [&](const Landed& landed) {
    if (landed.device != device) return false;
    std::memcpy(view_of(landed.to, landed.bytes.size()), landed.bytes.data(), landed.bytes.size());
    return true;
  });
}

}  // namespace kvrail::fake_cuda

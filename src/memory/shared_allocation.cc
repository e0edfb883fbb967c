#include "kvrail/shared_allocation.h"

#include <array>
#include <chrono>

#include <fmt/format.h>

#include "kvrail/error.h"
#include "memory/allocation_header.h"
#include "memory/descriptor_socket.h"
#include "memory/host_memory.h"

namespace kvrail {
namespace {

DescriptorSocket::Deadline deadline_in(std::uint32_t timeout_ms) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
}

}  // namespace

SharedAllocation SharedAllocation::create(std::uint64_t size_bytes, const std::string& name) {
  return SharedAllocation(HostMemory::create(size_bytes, name));
}

void SharedAllocation::send(int unix_socket, std::uint32_t timeout_ms) const {
  if (memory_ == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "SharedAllocation::send: it holds nothing; send it before it is moved from");
  }
  const AllocationHeader header{memory_->kind(), memory_->size_bytes()};
  DescriptorSocket(unix_socket)
      .send(header.encode(), memory_->descriptor(), deadline_in(timeout_ms));
}

SharedAllocation SharedAllocation::receive(int unix_socket, std::uint32_t timeout_ms) {
  std::array<std::byte, AllocationHeader::kBytes> bytes{};
  auto descriptors = DescriptorSocket(unix_socket).receive(bytes, deadline_in(timeout_ms));
  // It refuses all kinds but host memory.
  const AllocationHeader header = AllocationHeader::decode(bytes);
  if (descriptors.count != 1) {
    throw Error(ErrorCode::kMalformed,
                fmt::format("a shared allocation with {} descriptors instead of one was received; "
                            "send it by SharedAllocation::send",
                            descriptors.count));
  }
  return SharedAllocation(HostMemory::adopt(std::move(descriptors.first), header.size_bytes));
}

SharedMemoryKind SharedAllocation::kind() const {
  return memory_ ? memory_->kind() : SharedMemoryKind::kHost;
}

std::byte* SharedAllocation::data() const { return memory_ ? memory_->data() : nullptr; }

std::uint64_t SharedAllocation::size_bytes() const { return memory_ ? memory_->size_bytes() : 0; }

int SharedAllocation::descriptor() const { return memory_ ? memory_->descriptor() : -1; }

}  // namespace kvrail

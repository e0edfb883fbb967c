#pragma once

#include <cstddef>
#include <cstdint>

#include "kvrail/shared_allocation.h"

namespace kvrail {

// What backs a SharedAllocation: mapped memory behind a file descriptor. One class per kind.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  virtual ~SharedMemory() = default;

  virtual SharedMemoryKind kind() const = 0;
  virtual std::byte* data() const = 0;
  virtual std::uint64_t size_bytes() const = 0;
  virtual int descriptor() const = 0;
};

}  // namespace kvrail

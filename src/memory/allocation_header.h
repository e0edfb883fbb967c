#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvrail/shared_allocation.h"

namespace kvrail {

// The bytes of a message that passes a shared allocation; its one descriptor travels beside them.
// Little-endian: magic (32 bits), version (16), kind (16), size in bytes (64).
struct AllocationHeader {
  static constexpr std::size_t kBytes = 16;
  static constexpr std::uint32_t kMagic = 0x6153'766b;  // "kvSa"
  static constexpr std::uint16_t kVersion = 1;

  SharedMemoryKind kind = SharedMemoryKind::kHost;
  std::uint64_t size_bytes = 0;

  std::array<std::byte, kBytes> encode() const;
  // Throws Error: kMalformed, kVersionMismatch, kUnsupported (kind).
  static AllocationHeader decode(std::span<const std::byte, kBytes> bytes);
};

}  // namespace kvrail

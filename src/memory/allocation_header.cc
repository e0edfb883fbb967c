#include "memory/allocation_header.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/byte_codec.h"
#include "kvrail/error.h"

namespace kvrail {

std::array<std::byte, AllocationHeader::kBytes> AllocationHeader::encode() const {
  ByteWriter writer;
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(static_cast<std::uint16_t>(kind));
  writer.put(size_bytes);
  std::array<std::byte, kBytes> bytes{};
  std::ranges::copy(writer.take(), bytes.begin());
  return bytes;
}

AllocationHeader AllocationHeader::decode(std::span<const std::byte, kBytes> bytes) {
  ByteReader reader(bytes);
  if (const auto magic = reader.get<std::uint32_t>(); magic != kMagic) {
    throw Error(ErrorCode::kMalformed,
                fmt::format("what was received is no shared allocation (it begins with {:#010x}); "
                            "keep the socket for SharedAllocation::send alone",
                            magic));
  }
  if (const auto version = reader.get<std::uint16_t>(); version != kVersion) {
    throw Error(ErrorCode::kVersionMismatch,
                fmt::format("the shared allocation comes in version {} of its message, this "
                            "process knows version {}; run both with the same kvrail",
                            version, kVersion));
  }
  const auto kind = reader.get<std::uint16_t>();
  if (kind != static_cast<std::uint16_t>(SharedMemoryKind::kHost)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the shared allocation is of kind {}, which this process does not "
                            "know (it knows {}, host memory); run both with the same kvrail",
                            kind, static_cast<std::uint16_t>(SharedMemoryKind::kHost)));
  }
  const auto size_bytes = reader.get<std::uint64_t>();
  if (size_bytes == 0) {
    throw Error(ErrorCode::kMalformed,
                "a shared allocation of 0 bytes was received; what "
                "SharedAllocation::create made has at least one");
  }
  return {SharedMemoryKind{kind}, size_bytes};
}

}  // namespace kvrail

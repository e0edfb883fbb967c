#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvrail/error.h"
#include "kvrail/stranger_stats.h"
#include "wire/frame_fault.h"

namespace kvrail {

// Why a connection ended before its other side had proved itself.
enum class StrangerKind : std::uint8_t {
  kHttp,
  kTls,
  kSsh,
  kZeroLength,
  kHugeLength,
  kGarbage,
  kTooSlow,
  kHungUp,
  kWrongKey,
  kOtherScheme,
  kOtherVersion,
  kMadeRoom,
  kTooMany,
  kOther,
};

// By what arrived, and by what it was refused with.
StrangerKind kind_of(FrameFault fault, ErrorCode code);
// For logs.
std::string_view to_string(StrangerKind kind);

// Counts them. Threads: count() the messenger's; stats() any.
class Strangers {
 public:
  // Whether it is the first of its kind.
  bool count(StrangerKind kind);
  StrangerStats stats() const;

 private:
  static constexpr std::size_t kKinds = static_cast<std::size_t>(StrangerKind::kOther) + 1;

  std::uint64_t of(StrangerKind kind) const {
    return counts_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
  }

  std::array<std::atomic<std::uint64_t>, kKinds> counts_{};
};

}  // namespace kvrail

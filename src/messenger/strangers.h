#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
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

// What an introduction fails with, where that says more than the code of the error.
class StrangerError : public Error {
 public:
  StrangerError(StrangerKind kind, ErrorCode code, const std::string& text)
      : Error(code, text), kind_(kind) {}

  StrangerKind kind() const { return kind_; }

 private:
  StrangerKind kind_;
};

// Never by words of the stranger's own, such as the code of a Goodbye.
StrangerKind kind_of(const Error& error);
// kHungUp where nothing is wrong with what arrived.
StrangerKind kind_of(FrameFault fault);
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

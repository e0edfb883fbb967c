#include "messenger/strangers.h"

namespace kvrail {

StrangerKind kind_of(FrameFault fault, ErrorCode code) {
  switch (fault) {
    case FrameFault::kHttp:
      return StrangerKind::kHttp;
    case FrameFault::kTls:
      return StrangerKind::kTls;
    case FrameFault::kSsh:
      return StrangerKind::kSsh;
    case FrameFault::kZeroLength:
      return StrangerKind::kZeroLength;
    case FrameFault::kHugeLength:
      return StrangerKind::kHugeLength;
    case FrameFault::kGarbage:
      return StrangerKind::kGarbage;
    case FrameFault::kNotSealed:
      return StrangerKind::kWrongKey;
    case FrameFault::kNone:
      break;
  }
  switch (code) {
    case ErrorCode::kMalformed:
      return StrangerKind::kGarbage;
    case ErrorCode::kDeadline:
      return StrangerKind::kTooSlow;
    case ErrorCode::kPeerLost:
      return StrangerKind::kHungUp;
    case ErrorCode::kUnauthenticated:
      return StrangerKind::kOtherScheme;
    case ErrorCode::kVersionMismatch:
      return StrangerKind::kOtherVersion;
    case ErrorCode::kLimit:
      return StrangerKind::kMadeRoom;
    default:
      return StrangerKind::kOther;
  }
}

std::string_view to_string(StrangerKind kind) {
  static constexpr std::array<std::string_view, 14> kNames = {
      "http",          "tls",       "ssh",      "zero length", "huge length",
      "garbage",       "too slow",  "hung up",  "wrong key",   "other scheme",
      "other version", "made room", "too many", "other"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool Strangers::count(StrangerKind kind) {
  return counts_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed) == 0;
}

StrangerStats Strangers::stats() const {
  return {.http = of(StrangerKind::kHttp),
          .tls = of(StrangerKind::kTls),
          .ssh = of(StrangerKind::kSsh),
          .zero_length = of(StrangerKind::kZeroLength),
          .huge_length = of(StrangerKind::kHugeLength),
          .garbage = of(StrangerKind::kGarbage),
          .too_slow = of(StrangerKind::kTooSlow),
          .hung_up = of(StrangerKind::kHungUp),
          .wrong_key = of(StrangerKind::kWrongKey),
          .other_scheme = of(StrangerKind::kOtherScheme),
          .other_version = of(StrangerKind::kOtherVersion),
          .made_room = of(StrangerKind::kMadeRoom),
          .too_many = of(StrangerKind::kTooMany),
          .other = of(StrangerKind::kOther)};
}

}  // namespace kvrail

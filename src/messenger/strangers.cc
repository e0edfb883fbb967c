#include "messenger/strangers.h"

namespace kvrail {

StrangerKind kind_of(const Error& error) {
  if (const auto* const told = dynamic_cast<const StrangerError*>(&error)) return told->kind();
  return error.code() == ErrorCode::kMalformed ? StrangerKind::kGarbage : StrangerKind::kOther;
}

StrangerKind kind_of(FrameFault fault) {
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
    case FrameFault::kLeft:
    case FrameFault::kNone:
      break;
  }
  return StrangerKind::kHungUp;
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

#pragma once

#include <array>
#include <optional>
#include <utility>

#include "kvrail/error.h"
#include "wire/control_generated.h"
#include "wire/message.h"

namespace kvrail {

// Our enums on the wire. Codes have numbers that stay when the enum of the interface
// changes; kOk has none.
inline constexpr std::array<std::pair<ErrorCode, wire::Code>, 20> kWireCodes = {{
    {ErrorCode::kInvalidArgument, wire::Code::invalid_argument},
    {ErrorCode::kNotFound, wire::Code::not_found},
    {ErrorCode::kUnsupported, wire::Code::unsupported},
    {ErrorCode::kAddressInUse, wire::Code::address_in_use},
    {ErrorCode::kLimit, wire::Code::limit},
    {ErrorCode::kMalformed, wire::Code::malformed},
    {ErrorCode::kVersionMismatch, wire::Code::version_mismatch},
    {ErrorCode::kLayoutMismatch, wire::Code::layout_mismatch},
    {ErrorCode::kUnauthenticated, wire::Code::unauthenticated},
    {ErrorCode::kQueueFull, wire::Code::queue_full},
    {ErrorCode::kPeerLost, wire::Code::peer_lost},
    {ErrorCode::kLinkClosed, wire::Code::link_closed},
    {ErrorCode::kFabric, wire::Code::fabric},
    {ErrorCode::kUnitsExceeded, wire::Code::units_exceeded},
    {ErrorCode::kStepFailed, wire::Code::step_failed},
    {ErrorCode::kRejected, wire::Code::rejected},
    {ErrorCode::kCancelled, wire::Code::cancelled},
    {ErrorCode::kDeadline, wire::Code::deadline},
    {ErrorCode::kShutDown, wire::Code::shut_down},
    {ErrorCode::kPreempted, wire::Code::preempted},
}};

inline wire::Auth to_wire(AuthScheme scheme) {
  switch (scheme) {
    case AuthScheme::kNone:
      return wire::Auth::none;
    case AuthScheme::kPreSharedKey:
      return wire::Auth::psk;
  }
  return wire::Auth::none;
}

inline wire::Code to_wire(ErrorCode code) {
  for (const auto& [ours, theirs] : kWireCodes) {
    if (ours == code) return theirs;
  }
  return wire::Code::unset;
}

inline std::optional<ErrorCode> from_wire(wire::Code code) {
  for (const auto& [ours, theirs] : kWireCodes) {
    if (theirs == code) return ours;
  }
  return std::nullopt;
}

}  // namespace kvrail

#include "kvrail/error.h"

namespace kvrail {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return "ok";
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kAddressInUse:
      return "address_in_use";
    case ErrorCode::kLimit:
      return "limit";
    case ErrorCode::kMalformed:
      return "malformed";
    case ErrorCode::kVersionMismatch:
      return "version_mismatch";
    case ErrorCode::kLayoutMismatch:
      return "layout_mismatch";
    case ErrorCode::kUnauthenticated:
      return "unauthenticated";
    case ErrorCode::kQueueFull:
      return "queue_full";
    case ErrorCode::kPeerLost:
      return "peer_lost";
    case ErrorCode::kLinkClosed:
      return "link_closed";
    case ErrorCode::kFabric:
      return "fabric";
    case ErrorCode::kUnitsExceeded:
      return "units_exceeded";
    case ErrorCode::kStepFailed:
      return "step_failed";
    case ErrorCode::kRejected:
      return "rejected";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kDeadline:
      return "deadline";
    case ErrorCode::kShutDown:
      return "shut_down";
    case ErrorCode::kPreempted:
      return "preempted";
  }
  return "unknown";
}

}  // namespace kvrail

#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace kvrail {

// Why something was refused or failed. The text beside it names the setting, peer or request and,
// for set-up errors, the remedy.
enum class ErrorCode {
  kOk,
  kInvalidArgument,  // a setting or an argument is outside its range
  kNotFound,         // a provider, NIC, file, peer or request that does not exist
  kUnsupported,      // this machine, provider or build cannot do it
  kAddressInUse,     // another process listens there
  kLimit,            // a limit of the host: descriptors, locked memory, ports
  kMalformed,        // bytes from outside that do not verify
  kVersionMismatch,  // the peer, or bytes from outside, are of another version
  kLayoutMismatch,   // the two layouts cannot be served; the text quotes both
  kUnauthenticated,  // the peer's proof is missing or wrong
  kQueueFull,        // too many submissions, and the caller asked to be refused; too many messages
  kPeerLost,         // end of stream or missed heartbeats
  kLinkClosed,       // the link was closed (by us) while the operation was outstanding
  kFabric,           // the provider reported an error
  kUnitsExceeded,    // a peer sent more units than were expected
  kStepFailed,       // the forward pass that held this request failed or was mis-signalled
  kRejected,         // the prefill engine refused the request
  kCancelled,        // either engine gave the request up
  kDeadline,         // the request's deadline has passed
  kShutDown,         // the engine or messenger is closing
  kPreempted,        // the prefill engine takes its pages back for now
};

// Stable name of a code, for logs and metrics ("peer_lost").
std::string_view to_string(ErrorCode code);

// Thrown by set-up calls only; the data path reports a Status.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}

  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// The outcome of an operation on the data path. A success carries no text and allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string text_;
};

}  // namespace kvrail

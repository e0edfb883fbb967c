#pragma once

#include <cstdint>
#include <string>

#include "kvrail/error.h"

namespace kvrail {

// What a stream that cannot be split into frames looks like.
enum class FrameFault : std::uint8_t {
  kNone,
  kHttp,
  kTls,
  kSsh,
  kZeroLength,
  kHugeLength,  // above what the reader allows at this time
  kGarbage,     // any other bytes that begin like no message
  kNotSealed,   // a frame that the stream's key does not open
  kLeft,        // a Goodbye in clear where the first sealed frame was due
};

// What FrameReader throws.
class FrameError : public Error {
 public:
  FrameError(ErrorCode code, FrameFault fault, const std::string& text)
      : Error(code, text), fault_(fault) {}

  FrameFault fault() const { return fault_; }

 private:
  FrameFault fault_;
};

}  // namespace kvrail

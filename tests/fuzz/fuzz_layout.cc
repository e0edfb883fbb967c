// Layouts of any bytes are read or refused; what is read is valid and survives being written and
// read again.

#include <cstdlib>
#include <span>

#include "fuzz/fuzz_target.h"
#include "kvrail/error.h"
#include "kvrail/layout_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const kvrail::KvLayout layout = kvrail::layout_from_bytes(std::as_bytes(std::span(data, size)));
    if (kvrail::layout_from_bytes(kvrail::to_bytes(layout)) != layout) std::abort();
  } catch (const kvrail::Error& error) {
    if (error.code() != kvrail::ErrorCode::kMalformed &&
        error.code() != kvrail::ErrorCode::kVersionMismatch &&
        error.code() != kvrail::ErrorCode::kInvalidArgument) {
      std::abort();
    }
  }
  return 0;
}

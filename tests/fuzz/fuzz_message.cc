// Any bytes either decode or are kMalformed; what decodes encodes, and decodes to the same.

#include <cstdlib>
#include <span>

#include "fuzz/fuzz_target.h"
#include "kvrail/error.h"
#include "wire/codec.h"

namespace kvrail {
namespace {

void try_message(std::span<const std::byte> bytes) {
  Message message;
  try {
    message = decode(bytes);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kMalformed) std::abort();
    return;
  }
  if (decode(encode(message)) != message) std::abort();
}

}  // namespace
}  // namespace kvrail

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvrail::try_message(std::as_bytes(std::span(data, size)));
  return 0;
}

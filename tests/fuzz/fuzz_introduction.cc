// Offers, answers, confirms and region descriptors of any bytes are parsed or refused; what is
// parsed survives being written and parsed again.

#include <cstdlib>
#include <span>

#include "fabric/introduction.h"
#include "fuzz/fuzz_target.h"
#include "kvrail/error.h"

namespace kvrail {
namespace {

template <class Parsed>
void try_parse(std::span<const std::byte> bytes) {
  try {
    const Parsed parsed = Parsed::parse(bytes);
    if constexpr (requires { parsed.encode(); }) {
      const Bytes again = parsed.encode();
      if (Parsed::parse(again).encode() != again) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kMalformed && error.code() != ErrorCode::kVersionMismatch) {
      std::abort();
    }
  }
}

}  // namespace
}  // namespace kvrail

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  kvrail::try_parse<kvrail::Offer>(bytes);
  kvrail::try_parse<kvrail::Answer>(bytes);
  kvrail::try_parse<kvrail::Confirm>(bytes);
  kvrail::try_parse<kvrail::RegionDescriptor>(bytes);
  return 0;
}

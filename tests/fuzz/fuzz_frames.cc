// A stream of any bytes gives the same frames and the same fault, however it is cut into pieces.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

#include "fuzz/fuzz_target.h"
#include "kvrail/error.h"
#include "wire/frame_reader.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kMaxMessageBytes = 1u << 16;

struct Outcome {
  std::vector<std::vector<std::byte>> messages;
  bool malformed = false;

  bool operator==(const Outcome&) const = default;
};

Outcome read_in_pieces(std::span<const std::byte> stream, std::size_t piece) {
  Outcome outcome;
  FrameReader reader(kMaxMessageBytes);
  try {
    while (!stream.empty()) {
      const auto space = reader.prepare();
      const std::size_t size = std::min({piece, space.size(), stream.size()});
      if (size == 0) std::abort();
      std::memcpy(space.data(), stream.data(), size);
      reader.commit(size);
      stream = stream.subspan(size);
      while (const auto message = reader.next()) {
        outcome.messages.emplace_back(message->begin(), message->end());
      }
    }
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kMalformed) std::abort();
    outcome.malformed = true;
  }
  return outcome;
}

}  // namespace
}  // namespace kvrail

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto stream = std::as_bytes(std::span(data, size)).subspan(1);
  const auto whole = kvrail::read_in_pieces(stream, stream.size() + 1);
  if (kvrail::read_in_pieces(stream, std::size_t{data[0]} + 1) != whole) std::abort();
  return 0;
}

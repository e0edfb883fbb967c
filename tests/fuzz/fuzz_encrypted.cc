// An encrypted stream of any bytes gives nothing that was not sealed with its key, in that order,
// and the same however it is cut into pieces; what it gives decodes or is kMalformed.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "fuzz/encrypted_input.h"
#include "fuzz/fuzz_target.h"
#include "kvrail/error.h"
#include "wire/codec.h"
#include "wire/frame_reader.h"

namespace kvrail {
namespace {

constexpr std::uint32_t kMaxMessageBytes = 1u << 14;

struct Outcome {
  std::vector<std::vector<std::byte>> messages;
  bool refused = false;

  bool operator==(const Outcome&) const = default;
};

void try_message(std::span<const std::byte> bytes) {
  try {
    decode(bytes);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kMalformed) std::abort();
  }
}

Outcome read_in_pieces(std::span<const std::byte> stream, std::size_t piece) {
  Outcome outcome;
  FrameReader reader(kMaxMessageBytes);
  reader.decrypt(secret_of(1));
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
        try_message(*message);
      }
    }
  } catch (const FrameError& e) {
    if (e.code() != ErrorCode::kMalformed && e.code() != ErrorCode::kUnauthenticated) std::abort();
    outcome.refused = true;
  }
  return outcome;
}

bool is_allowed(const std::vector<std::byte>& message) {
  return message.size() >= kMinMessageBytes && message.size() <= kMaxMessageBytes;
}

void check(const Outcome& outcome, const EncryptedInput& input) {
  if (outcome.messages.size() > input.sealed.size()) std::abort();
  if (!std::equal(outcome.messages.begin(), outcome.messages.end(), input.sealed.begin())) {
    std::abort();
  }
  const auto first = input.sealed.begin();
  const auto end = first + static_cast<std::ptrdiff_t>(input.sealed_first);
  const auto due = std::find_if_not(first, end, is_allowed) - first;
  if (std::ssize(outcome.messages) < due) std::abort();
}

}  // namespace
}  // namespace kvrail

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto input = kvrail::parse_encrypted(bytes.subspan(1), kvrail::secret_of(1));
  const auto whole = kvrail::read_in_pieces(input.stream, input.stream.size() + 1);
  kvrail::check(whole, input);
  if (kvrail::read_in_pieces(input.stream, std::size_t{data[0]} + 1) != whole) std::abort();
  return 0;
}

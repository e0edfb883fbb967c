#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "wire/sealed_frames.h"

namespace kvrail {

// What the fuzzer of encrypted streams reads its input as: a byte that says how the stream is cut,
// then pieces, each behind a byte for its kind and two for its length (little endian). A sealed
// piece becomes a frame of its own, sealed with the key of the stream; a raw one is there as it is.
inline constexpr std::size_t kPieceHeaderBytes = 3;

inline bool is_sealed(std::byte kind) { return (kind & std::byte{1}) == std::byte{0}; }

struct EncryptedInput {
  std::vector<std::byte> stream;
  // What may come out of it: the content of the sealed pieces before the first raw one, at least,
  // as far as its length is allowed; and never anything that was not sealed.
  std::vector<std::vector<std::byte>> sealed;
  std::size_t sealed_first = 0;  // before any raw piece
};

inline EncryptedInput parse_encrypted(std::span<const std::byte> input, const Secret& key) {
  EncryptedInput result;
  FrameCipher cipher(key);
  bool raw_came = false;
  while (input.size() >= kPieceHeaderBytes) {
    const bool sealed = is_sealed(input[0]);
    const std::size_t announced =
        std::to_integer<std::size_t>(input[1]) | std::to_integer<std::size_t>(input[2]) << 8;
    input = input.subspan(kPieceHeaderBytes);
    const auto piece = input.first(std::min(announced, input.size()));
    input = input.subspan(piece.size());
    std::vector<std::byte> bytes(piece.begin(), piece.end());
    if (sealed) {
      const auto frame = seal(cipher, bytes);
      result.stream.insert(result.stream.end(), frame.begin(), frame.end());
      result.sealed.push_back(std::move(bytes));
      if (!raw_came) ++result.sealed_first;
    } else {
      result.stream.insert(result.stream.end(), bytes.begin(), bytes.end());
      raw_came = raw_came || !bytes.empty();
    }
  }
  return result;
}

}  // namespace kvrail

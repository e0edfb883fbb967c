#include "fuzz/encrypted_input.h"
#include "fuzz/fuzz_target.h"
#include "wire/codec.h"
#include "wire/sample_messages.h"

namespace kvrail {
namespace {

constexpr std::byte kSealed{0};
constexpr std::byte kRaw{1};

void add(std::vector<std::byte>& seed, std::byte kind, const std::vector<std::byte>& piece) {
  seed.push_back(kind);
  seed.push_back(static_cast<std::byte>(piece.size()));
  seed.push_back(static_cast<std::byte>(piece.size() >> 8));
  seed.insert(seed.end(), piece.begin(), piece.end());
}

}  // namespace

std::vector<std::vector<std::byte>> fuzz_seeds() {
  Random random(1);
  std::vector<std::vector<std::byte>> seeds;
  const auto message = [&random] {
    return encode(sample_message(random() % kMessageKinds, random));
  };
  for (std::size_t count = 1; count < 6; ++count) {
    std::vector<std::byte> seed = {static_cast<std::byte>(count * 7)};
    for (std::size_t i = 0; i < count; ++i) add(seed, kSealed, message());
    seeds.push_back(seed);
    // Then something that was not sealed with this key. (What was must not be among the raw pieces:
    // it opens.)
    FrameCipher other(secret_of(static_cast<unsigned char>(1 + count)));
    add(seed, kRaw, seal(other, message()));
    add(seed, kSealed, message());
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

}  // namespace kvrail

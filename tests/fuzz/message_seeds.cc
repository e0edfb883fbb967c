#include "fuzz/fuzz_target.h"
#include "wire/codec.h"
#include "wire/sample_messages.h"

namespace kvrail {

std::vector<std::vector<std::byte>> fuzz_seeds() {
  Random random(1);
  std::vector<std::vector<std::byte>> seeds;
  for (std::size_t kind = 0; kind < kMessageKinds; ++kind) {
    for (int i = 0; i < 8; ++i) seeds.push_back(encode(sample_message(kind, random)));
  }
  return seeds;
}

}  // namespace kvrail

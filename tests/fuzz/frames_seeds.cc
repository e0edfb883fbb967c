#include <span>
#include <string_view>

#include "fuzz/fuzz_target.h"
#include "wire/codec.h"
#include "wire/frame_reader.h"
#include "wire/sample_messages.h"

namespace kvrail {

std::vector<std::vector<std::byte>> fuzz_seeds() {
  Random random(1);
  std::vector<std::vector<std::byte>> seeds;
  for (std::size_t count = 1; count < 6; ++count) {
    // The first byte says how the rest is cut.
    std::vector<std::byte> stream = {static_cast<std::byte>(count * 7)};
    for (std::size_t i = 0; i < count; ++i) {
      const auto message = encode(sample_message(random() % kMessageKinds, random));
      std::vector<std::byte> header(kFrameHeaderBytes);
      put_frame_length(header.data(), static_cast<std::uint32_t>(message.size()));
      stream.insert(stream.end(), header.begin(), header.end());
      stream.insert(stream.end(), message.begin(), message.end());
    }
    seeds.push_back(std::move(stream));
  }
  for (const std::string_view other : {"3GET / HTTP/1.1\r\n\r\n", "\x01\x16\x03\x01 TLS record"}) {
    const auto bytes = std::as_bytes(std::span(other));
    seeds.emplace_back(bytes.begin(), bytes.end());
  }
  return seeds;
}

}  // namespace kvrail

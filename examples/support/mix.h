#pragma once

#include <cstdint>
#include <string_view>

namespace mock_engine {

// A one-to-one scramble of 64 bits (the finaliser of SplitMix64).
inline std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The same on every host, unlike std::hash.
inline std::uint64_t mix64(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char c : text) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

}  // namespace mock_engine

#pragma once

#include <cstdint>

#include "kvrail/ids.h"

namespace kvrail {

// The 32 bits that travel with a write: counter (20 bits) | units (12 bits).
//
// Where several of the peer's links write to one of ours, the upper bits of the counter field say
// which of them it was, so that credit goes back to the link that used it; ids of counters are
// then smaller. Counter 0 is not a counter: it says that the write is a grant of credit.
inline constexpr std::uint32_t kUnitBits = 12;
inline constexpr std::uint32_t kCounterBits = 20;
inline constexpr std::uint32_t kMaxUnitsPerWrite = (1u << kUnitBits) - 1;
inline constexpr std::uint32_t kMaxSourceTagBits = 8;

class ImmediateFormat {
 public:
  // Enough tag bits for `source_links` links of the peer; 1 to 256.
  explicit constexpr ImmediateFormat(std::uint32_t source_links = 1) {
    while ((1u << tag_bits_) < source_links) ++tag_bits_;
  }

  constexpr std::uint32_t max_counter() const { return (1u << counter_bits()) - 1; }
  constexpr std::uint32_t pack(std::uint32_t tag, CounterId counter, std::uint32_t units) const {
    const std::uint32_t tagged = tag_bits_ == 0 ? 0 : tag << (counter_bits() + kUnitBits);
    return tagged | counter.value() << kUnitBits | units;
  }
  constexpr std::uint32_t tag(std::uint32_t immediate) const {
    return tag_bits_ == 0 ? 0 : immediate >> (counter_bits() + kUnitBits);
  }
  constexpr CounterId counter(std::uint32_t immediate) const {
    return CounterId{immediate >> kUnitBits & max_counter()};
  }
  static constexpr std::uint32_t units(std::uint32_t immediate) {
    return immediate & kMaxUnitsPerWrite;
  }

 private:
  constexpr std::uint32_t counter_bits() const { return kCounterBits - tag_bits_; }

  std::uint32_t tag_bits_ = 0;
};

}  // namespace kvrail

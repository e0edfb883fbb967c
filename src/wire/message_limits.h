#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/message.h"

namespace kvrail {

// What a message may hold, in both directions: encode() refuses to write more and decode() to read
// it (with the counts of kv_layout.h). A message is also bounded as a whole by
// ControlLimits::max_message_bytes.
inline constexpr std::size_t kMaxNameBytes = 1024;  // nodes, models, groups, tensors
inline constexpr std::size_t kMaxExternalIdBytes = 4096;
inline constexpr std::size_t kMaxReasonBytes = 64u << 10;  // longer reasons are cut when written
inline constexpr std::size_t kMaxNonceBytes = 256;         // nonces, proofs and public keys
inline constexpr std::size_t kMaxFabricBytes = 64u << 20;  // offers, answers, confirmations
inline constexpr std::size_t kMaxDescriptorBytes = 16u << 10;
inline constexpr std::size_t kMaxPayloadBytes = 256u << 20;
inline constexpr std::size_t kMaxPagesPerRequest = 64u << 20;  // over all cache groups
inline constexpr std::size_t kMaxRegions = 16384;
inline constexpr std::size_t kMaxLayoutEntries = 4u << 20;  // layers, heads and placements together
inline constexpr std::size_t kMaxDeviceGroupEntries = 4096;
inline constexpr std::uint32_t kMaxCounterValue = (1u << 20) - 1;  // of a CounterId; at least 1

// The first value of `message` that is outside these limits or that no side may say (two entries of
// one device group, a range of tokens beyond the prompt, ...), as text that begins with the field;
// empty when there is none.
std::string find_fault(const Message& message);
// The same for a layout by itself.
std::string find_fault(const KvLayout& layout);

}  // namespace kvrail

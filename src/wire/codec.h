#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "wire/message.h"

namespace kvrail {

// One message as a FlatBuffer (without the frame's length). Throws Error (kInvalidArgument) that
// names message and field for values outside message_limits.h; a longer reason is cut.
std::vector<std::byte> encode(const Message& message);
// The same, appended to `out`; `out` is unchanged when it throws.
void encode_to(const Message& message, std::vector<std::byte>& out);

// Verifies and decodes one message; the bytes need no alignment. Throws Error: kMalformed, with the
// names of message and field, for bytes that do not verify or values outside their enum or
// message_limits.h. The layout inside is structurally sound but not yet validate()d. What is
// decoded takes no more memory than a small multiple of `bytes`. Of a Hello or HelloAck of another
// protocol version only that version, node_name and incarnation are read.
Message decode(std::span<const std::byte> bytes);

// What stands in every encoded message at kIdentifierOffset, so that garbage is known early.
inline constexpr std::string_view kMessageIdentifier = "KVRC";
inline constexpr std::size_t kIdentifierOffset = 4;
// No encoded message is shorter.
inline constexpr std::size_t kMinMessageBytes = 12;

}  // namespace kvrail

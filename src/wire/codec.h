#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "wire/message.h"

namespace kvrail {

// One message as a FlatBuffer (without the frame's length).
std::vector<std::byte> encode(const Message& message);

// Verifies and decodes one message. Throws Error: kMalformed for bytes that do not verify or values
// outside their enum or range. The layout inside is structurally sound but not yet validate()d.
Message decode(std::span<const std::byte> bytes);

}  // namespace kvrail

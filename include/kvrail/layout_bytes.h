#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kvrail/kv_layout.h"

namespace kvrail {

// A layout as bytes that another process, or the same version of the library later, can read: the
// whole struct, regions, device groups and bases included. 48 bytes per placement, and little else.
//
// Throws what validate() throws, and Error (kInvalidArgument) on more than 4 Mi layers, head ranges
// and placements together.
std::vector<std::byte> to_bytes(const KvLayout& layout);

// The layout that to_bytes() was given. Throws Error: kMalformed on bytes that are none, or only
// part of one; kVersionMismatch on those that another version of the library writes in another way;
// what validate() throws on a layout that is not valid. The bytes may come from anywhere and need
// no alignment.
KvLayout layout_from_bytes(std::span<const std::byte> bytes);

}  // namespace kvrail

#pragma once

#include <cstddef>
#include <random>
#include <variant>

#include "wire/message.h"

namespace kvrail {

using Random = std::mt19937_64;

inline constexpr std::size_t kMessageKinds = std::variant_size_v<Message>;

// A message of one kind (an index of the variant) with random content that the wire carries.
Message sample_message(std::size_t kind, Random& random);

// A layout of random content, which no engine could use.
KvLayout sample_layout(Random& random);

}  // namespace kvrail

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mock_engine {

// What stands in KV memory in place of real keys and values: 8-byte words that differ with every
// coordinate, so that any byte of another request, layer, tensor, head or token is found.
//
// Threads: pure functions.

// Where a vector (one head of one token) stands.
struct VectorPlace {
  std::uint64_t layer_seed = 0;  // from layer_seed()
  std::uint64_t token_key = 0;   // Prompt::token_key
  std::uint32_t head = 0;        // over the whole model
};

// For one tensor of one layer of one model.
std::uint64_t layer_seed(std::uint64_t model_seed, std::uint32_t layer, std::uint32_t tensor);

// Writes one vector; any size.
void fill_vector(std::span<std::byte> vector, const VectorPlace& place);
// Bytes of the vector that are not what fill_vector writes.
std::uint64_t count_wrong(std::span<const std::byte> vector, const VectorPlace& place);

// What stands where nothing may be written.
void fill_poison(std::span<std::byte> bytes);
std::uint64_t count_not_poison(std::span<const std::byte> bytes);

}  // namespace mock_engine

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvrail {

// Inputs to begin with: what an honest peer would send. The same on every call.
std::vector<std::vector<std::byte>> fuzz_seeds();

}  // namespace kvrail

// One input; aborts on what must not happen, beside what the sanitizers find.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

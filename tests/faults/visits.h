#pragma once

#include <cstdint>
#include <string>

#include "faults/node_process.h"
#include "support/process_channel.h"

namespace kvrail {

// Decode nodes that come, ask for one small prompt, and go, while a prefill node lives on.

// In the process that they live in, a few at a time: "visit N" is answered by "visited" and what
// the process holds. Throws Violation.
void serve_visits(const NodeSetup& setup, const std::string& address, ProcessChannel& channel);

// Prints what both processes hold every so often; throws Violation if it grows.
void run_visits(const std::string& provider, std::uint64_t seed, std::uint32_t peers);

// Requests without faults over one pair, in rounds; prints and throws likewise.
void run_endurance(const std::string& provider, std::uint64_t seed, std::uint32_t requests,
                   std::uint32_t seconds);

}  // namespace kvrail

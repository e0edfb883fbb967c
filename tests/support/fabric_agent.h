#pragma once

namespace kvrail {

// The only argument of a test program that is to be the other process of a test.
inline constexpr char kAgentArgument[] = "--fabric-agent";

// Whether the program was started as such; then main() returns what run_fabric_agent() returns.
bool is_fabric_agent(int argc, char** argv);

// Serves a RemoteNode until its channel ends.
int run_fabric_agent();

}  // namespace kvrail

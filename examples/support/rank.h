#pragma once

namespace mock_engine {

// A process that is one rank of a node: creates the rank's KV memory, passes it to the lead process
// that started it, and does there what GPUs would do. `socket` leads to the lead; its end is the
// rank's. Returns the exit status.
int run_rank(int socket);

}  // namespace mock_engine

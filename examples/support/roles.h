#pragma once

#include "support/options.h"

namespace mock_engine {

// One node by itself. Returns the exit status: 0 if all is well, 1 on a wrong byte, a lost request
// or a page that is not free at the end. Throws what setting up a node throws.
int run_prefill(const Options& options);
int run_decode(const Options& options);

}  // namespace mock_engine

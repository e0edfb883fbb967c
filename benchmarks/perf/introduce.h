#pragma once

#include <string>

#include "kvrail/transfer_engine.h"

namespace kvrail::perf {

// What two engines know each other as.
struct Introduced {
  PeerId target;  // the target, at the source
  PeerId source;
};

// Introduces two engines of this process, both under `name`. With `rings` the source rings the
// target after a pause, as a messenger does; the target outlives the source then. Throws Error.
Introduced introduce(TransferEngine& source, TransferEngine& target, const std::string& name,
                     bool rings = false);

}  // namespace kvrail::perf

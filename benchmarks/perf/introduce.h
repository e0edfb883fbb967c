#pragma once

#include <string>

#include "kvrail/transfer_engine.h"

namespace kvrail::perf {

// What two engines know each other as.
struct Introduced {
  PeerId target;  // the target, at the source
  PeerId source;
};

// Introduces two engines of this process, both under `name`. Throws Error.
Introduced introduce(TransferEngine& source, TransferEngine& target, const std::string& name);

}  // namespace kvrail::perf

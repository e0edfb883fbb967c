#pragma once

#include <optional>
#include <string>

#include "kvrail/error.h"
#include "kvrail/ids.h"

namespace kvrail {

// A rail that does not carry a peer's writes any more.
struct RailFailure {
  Status status;
  RailId local;
  // The peer's rail that the write was for, where a write or a grant of credit failed.
  std::optional<RailId> remote;
};

// Thrown where a rail of this node refuses to open a link or to register memory: the others may
// still work. A limit of the host (kLimit) is an Error, since leaving out a rail cures none.
class RailError : public Error {
 public:
  RailError(ErrorCode code, RailId rail, const std::string& text)
      : Error(code, text), rail_(rail) {}

  RailId rail() const { return rail_; }

 private:
  RailId rail_;
};

}  // namespace kvrail

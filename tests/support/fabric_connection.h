#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "support/fabric_node.h"
#include "support/fabric_outcome.h"

namespace kvrail {

// What a peer's on_error said.
class ErrorLog {
 public:
  void add(const Status& status) {
    const std::lock_guard lock(mutex_);
    errors_.push_back(status);
  }
  std::vector<Status> errors() const {
    const std::lock_guard lock(mutex_);
    return errors_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Status> errors_;  // guarded
};

// One way between two introduced nodes.
struct FabricRoute {
  FabricNode& sender;
  PeerId receiver_at_sender;
  FabricNode& receiver;
  PeerId sender_at_receiver;
};

// Two nodes introduced to each other, with the rings that a control stream would carry. The two may
// be one and the same.
class FabricConnection {
 public:
  FabricConnection(FabricNode& initiator, FabricNode& acceptor);

  struct Side {
    FabricNode* node = nullptr;
    PeerId peer;  // the other side, as `node` knows it
    std::shared_ptr<ErrorLog> errors = std::make_shared<ErrorLog>();
  };
  const Side& initiator() const { return sides_[0]; }
  const Side& acceptor() const { return sides_[1]; }
  FabricRoute forward() const { return route(0, 1); }
  FabricRoute backward() const { return route(1, 0); }

  // Closes both sides and tells each that the other has; true when both say so in time.
  bool close();

 private:
  FabricRoute route(int from, int to) const {
    return {*sides_[from].node, sides_[from].peer, *sides_[to].node, sides_[to].peer};
  }

  std::array<Side, 2> sides_;
};

// Closes one side's links; true when it says so in time.
bool close_side(const FabricConnection::Side& side);

}  // namespace kvrail

#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "support/fabric_node.h"
#include "support/fabric_outcome.h"

namespace kvrail {

// What a callback of a peer said.
template <class Entry>
class CallbackLog {
 public:
  void add(const Entry& entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
  }
  std::vector<Entry> entries() const {
    const std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded
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
  struct RailUse {
    std::vector<RailId> left_out_by_initiator = {};
    std::vector<RailId> left_out_by_acceptor = {};
    bool watched = false;  // both sides set on_rail_failed
  };
  FabricConnection(FabricNode& initiator, FabricNode& acceptor, const RailUse& rails);
  FabricConnection(FabricNode& initiator, FabricNode& acceptor)
      : FabricConnection(initiator, acceptor, RailUse{}) {}

  struct Side {
    FabricNode* node = nullptr;
    PeerId peer;  // the other side, as `node` knows it
    std::shared_ptr<CallbackLog<Status>> errors = std::make_shared<CallbackLog<Status>>();
    std::shared_ptr<CallbackLog<RailFailure>> rail_failures =
        std::make_shared<CallbackLog<RailFailure>>();
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

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvrail/ids.h"
#include "kvrail/transfer_plan.h"
#include "layout/layer_writes.h"
#include "wire/message.h"

namespace kvrail {

class SendGate;

// How this node's pages reach those of a peer.
struct SendRoute {
  TransferPlan plan;
  LayerWriter writer;
  std::unordered_map<RegionId, RemoteRegionId> regions;  // by the peer's own ids
  std::shared_ptr<const std::vector<RegionEntry>> descriptors;
  std::vector<std::shared_ptr<SendGate>> gates;  // by this node's device group
};

// What is known of a peer once both nodes are introduced. Immutable, and so shared by every thread;
// it may outlive the peer. Other links in place of these make another one, with the same id.
struct AttachedPeer {
  PeerId id;                       // as the engine knows it
  PeerId links;                    // as fabric-lib knows it: one set of links
  std::uint32_t links_number = 0;  // of that set, the same on both nodes; from 0
  // Other links can take the place of these, since there are more rails than one.
  bool fails_over = false;
  std::string node_name;
  std::string label;  // "node-7 (10.0.0.7:4600)", for errors and logs
  std::uint32_t lost_after_ms = 0;
  std::optional<SendRoute> send;        // this node prefills for it
  std::optional<TransferPlan> receive;  // it prefills for this node
};

}  // namespace kvrail

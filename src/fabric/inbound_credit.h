#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric/channel.h"
#include "fabric/channel_plan.h"
#include "fabric/link.h"
#include "fabric/link_counters.h"

namespace kvrail {

// The credit that one device group gives to the links of one peer: counts the immediates that were
// read, and lets the link that sent them send as many again.
//
// Invariant: per channel granted - consumed <= share, and the shares of a link's channels add up to
// at most receive_credit; so the peer cannot overrun the link's completion queue.
//
// Threads: the device group's worker only.
class InboundCredit {
 public:
  // Plans a channel for each link of the peer that writes to one of `group`'s `rails` links. Throws
  // Error (kInvalidArgument) when receive_credit is too small for them.
  InboundCredit(const std::vector<ChannelPlan>& channels, DeviceGroupId group, std::size_t rails,
                std::uint32_t receive_credit, const std::string& peer_name);

  // Where the channel's grants go, once that is known.
  void connect(RailIndex rail, std::uint32_t tag, RailId source, fi_addr_t source_address,
               std::uint64_t grant_address, std::uint64_t grant_key);

  // An immediate was read on `rail`; tags outside the plan are ignored.
  void consume(std::uint32_t rail, std::uint32_t tag);

  // The peer rang. If nothing of it has come since it rang before, it may wait for a grant that was
  // lost: the last one is due again, up to kMaxGrantRepeats times.
  void peer_rang();

  bool has_due_grants() const { return !due_.empty(); }
  // A grant that could not be sent, and never will be.
  struct Failure {
    Link* link = nullptr;
    RailId source;
    Status status;
  };
  // Sends what is due, as far as the provider has room. `links` by rail.
  std::vector<Failure> send(const std::vector<Link*>& links, LinkCounters& counters);

 private:
  struct Due {
    std::uint32_t rail = 0;
    std::uint32_t tag = 0;
  };
  void make_due(std::uint32_t rail, std::uint32_t tag);

  enum class Sent { kYes, kNoRoom, kFailed };

  Sent send_one(Link& link, InboundChannel& channel, LinkCounters& counters,
                std::vector<Failure>& failures);

  std::vector<std::vector<InboundChannel>> channels_;  // [rail][tag]
  std::vector<Due> due_;
};

}  // namespace kvrail

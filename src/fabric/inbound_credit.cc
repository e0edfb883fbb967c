#include "fabric/inbound_credit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <rdma/fi_errno.h>

#include "fabric/immediate.h"
#include "kvrail/error.h"

namespace kvrail {

InboundCredit::InboundCredit(const std::vector<ChannelPlan>& channels, DeviceGroupId group,
                             std::size_t rails, std::uint32_t receive_credit,
                             const std::string& peer_name)
    : channels_(rails) {
  for (std::size_t rail = 0; rail < rails; ++rail) {
    const std::uint32_t sources =
        sources_of_link(channels, group, RailIndex(static_cast<std::uint16_t>(rail)));
    if (sources > receive_credit || sources > (1u << kMaxSourceTagBits)) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("receive_credit {} is too small for the {} links of {} that write to "
                      "one link here: set it to {} or more, or use fewer rails (at most {} "
                      "links may write to one)",
                      receive_credit, sources, peer_name, 2 * sources, 1u << kMaxSourceTagBits));
    }
    channels_[rail].resize(sources);
    for (InboundChannel& channel : channels_[rail]) {
      channel.share = channel.granted = receive_credit / sources;
    }
  }
}

void InboundCredit::connect(RailIndex rail, std::uint32_t tag, RailId source,
                            fi_addr_t source_address, std::uint64_t grant_address,
                            std::uint64_t grant_key) {
  InboundChannel& channel = channels_[rail.value()][tag];
  channel.source = source;
  channel.source_address = source_address;
  channel.grant_address = grant_address;
  channel.grant_key = grant_key;
}

void InboundCredit::consume(std::uint32_t rail, std::uint32_t tag) {
  if (tag >= channels_[rail].size()) return;
  InboundChannel& channel = channels_[rail][tag];
  ++channel.consumed;
  channel.repeats = 0;
  if (channel.wants_grant()) make_due(rail, tag);
}

void InboundCredit::make_due(std::uint32_t rail, std::uint32_t tag) {
  if (std::exchange(channels_[rail][tag].due, true)) return;
  due_.push_back({rail, tag});
}

void InboundCredit::peer_rang() {
  for (std::uint32_t rail = 0; rail < channels_.size(); ++rail) {
    for (std::uint32_t tag = 0; tag < channels_[rail].size(); ++tag) {
      InboundChannel& channel = channels_[rail][tag];
      const bool was_granted = channel.granted > channel.share;
      const bool is_quiet = channel.consumed_at_ring == channel.consumed;
      if (was_granted && is_quiet && channel.repeats < kMaxGrantRepeats) {
        ++channel.repeats;
        make_due(rail, tag);
      }
      channel.consumed_at_ring = channel.consumed;
    }
  }
}

std::vector<InboundCredit::Failure> InboundCredit::send(const std::vector<Link*>& links,
                                                        LinkCounters& counters) {
  std::vector<Failure> failures;
  std::erase_if(due_, [&](const Due& due) {
    InboundChannel& channel = channels_[due.rail][due.tag];
    channel.due = send_one(*links[due.rail], channel, counters, failures) == Sent::kNoRoom;
    return !channel.due;
  });
  return failures;
}

InboundCredit::Sent InboundCredit::send_one(Link& link, InboundChannel& channel,
                                            LinkCounters& counters,
                                            std::vector<Failure>& failures) {
  if (channel.source_address == FI_ADDR_UNSPEC) return Sent::kNoRoom;
  if (!link.may_post()) return Sent::kFailed;
  const std::uint64_t granted = channel.consumed + channel.share;
  const std::uint64_t address =
      channel.grant_address + channel.turn % kGrantTurns * sizeof(std::uint64_t);
  // Every write that has an immediate carries units; a grant's are not looked at.
  const long code = link.post_grant(granted, channel.source_address, address, channel.grant_key,
                                    ImmediateFormat().pack(0, CounterId(0), 1));
  if (code == -FI_EAGAIN) return Sent::kNoRoom;
  if (code != 0) {
    failures.push_back(
        {&link,
         channel.source,
         {ErrorCode::kFabric, fmt::format("rail {}: granting credit: {}", link.rail().name(),
                                          fabric_error_text(code))}});
    return Sent::kFailed;
  }
  channel.granted = granted;
  ++channel.turn;
  counters.grants_sent.add(1);
  return Sent::kYes;
}

}  // namespace kvrail

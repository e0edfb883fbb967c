#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/byte_codec.h"
#include "fabric/channel_plan.h"
#include "fabric/host_proof.h"
#include "kvrail/ids.h"

namespace kvrail {

// What engines tell each other when they meet, and the descriptors of regions. The bytes come from
// outside: parse() checks every count, length and index, and throws Error (kMalformed).

// Initiator: the providers that it has open, with their rails, and where it claims to run.
struct Offer {
  struct ProviderRails {
    std::string name;
    NodeRails rails;
  };
  std::vector<ProviderRails> providers;  // in order of preference
  HostClaim claim;

  static Offer parse(std::span<const std::byte> bytes);
};
// The claim is the engine's own, so that an offer is written beside it.
Bytes encode_offer(const std::vector<Offer::ProviderRails>& providers, const HostProof& host);

// One link's endpoint, and where the peer writes grants of credit for it. Without an endpoint: a
// rail that has no link.
struct LinkAddress {
  Bytes endpoint;
  std::uint64_t grant_key = 0;
  std::uint64_t grant_base = 0;
};

// A node's links for one peer: per device group, per rail; at least one of each group.
struct NodeLinks {
  std::uint32_t receive_credit = 0;
  std::uint32_t process_id = 0;
  std::vector<std::vector<LinkAddress>> groups;

  NodeRails rails() const;
};

// Acceptor: the provider that it chose, and its links.
struct Answer {
  std::string provider;
  std::string reason;
  Bytes host_proof;   // empty where the initiator is not on this host
  NodeRails offered;  // the initiator's rails on that provider, as its offer said
  NodeLinks links;

  Bytes encode() const;
  static Answer parse(std::span<const std::byte> bytes);
};

// Initiator: its links.
struct Confirm {
  NodeLinks links;

  Bytes encode() const;
  static Confirm parse(std::span<const std::byte> bytes);
};

// A region as peers see it: per provider and rail of its device group, the key and the base.
struct RegionDescriptor {
  struct RailKey {
    std::uint64_t key = 0;
    std::uint64_t base = 0;
  };
  struct ProviderKeys {
    std::string provider;
    std::vector<RailKey> rails;
  };
  DeviceGroupId group;
  std::uint64_t size_bytes = 0;
  std::vector<ProviderKeys> providers;

  Bytes encode() const;
  static RegionDescriptor parse(std::span<const std::byte> bytes);
};

}  // namespace kvrail

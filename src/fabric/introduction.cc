#include "fabric/introduction.h"

#include <utility>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

enum class Kind : std::uint8_t { kOffer = 1, kAnswer = 2, kConfirm = 3, kRegion = 4 };

constexpr std::uint32_t kMagic = 0x4c52564b;  // "KVRL"
constexpr std::uint16_t kVersion = 2;
constexpr std::size_t kMaxProviders = 8;
constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxReason = 1024;
constexpr std::size_t kMaxEndpoint = 1024;
constexpr std::size_t kMaxProof = 64;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kOffer:
      return "offer";
    case Kind::kAnswer:
      return "answer";
    case Kind::kConfirm:
      return "confirm";
    case Kind::kRegion:
      return "region descriptor";
  }
  return "descriptor";
}

ByteWriter begin(Kind kind) {
  ByteWriter writer;
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(static_cast<std::uint8_t>(kind));
  return writer;
}

[[noreturn]] void refuse(Kind kind, const char* what) {
  throw Error(ErrorCode::kMalformed,
              fmt::format("malformed {} from the peer: {}", name_of(kind), what));
}

ByteReader open(Kind kind, std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.get<std::uint32_t>() != kMagic) refuse(kind, "it does not begin as one");
  const auto version = reader.get<std::uint16_t>();
  const auto found = reader.get<std::uint8_t>();
  if (!reader.ok()) refuse(kind, "it is cut short");
  if (version != kVersion) {
    throw Error(ErrorCode::kVersionMismatch,
                fmt::format("the peer's {} has version {}, ours is {}: run the same kvrail on both",
                            name_of(kind), version, kVersion));
  }
  if (found != static_cast<std::uint8_t>(kind)) {
    refuse(kind, "it is another kind of descriptor");
  }
  return reader;
}

void close(Kind kind, const ByteReader& reader) {
  if (!reader.finished()) refuse(kind, "its length is wrong");
}

std::size_t get_count(ByteReader& reader, Kind kind, std::size_t most) {
  const auto count = reader.get<std::uint16_t>();
  if (!reader.ok() || count == 0 || count > most) refuse(kind, "a count is out of range");
  return count;
}

void put_group(ByteWriter& writer, const GroupRails& group) {
  writer.put(group.count());
  writer.put(group.linked());
}

GroupRails get_group(ByteReader& reader, Kind kind) {
  const std::size_t count = get_count(reader, kind, kMaxRailsPerGroup);
  const auto linked = reader.get<std::uint64_t>();
  const GroupRails group(count, linked);
  if (group.linked() != linked) refuse(kind, "it names rails that do not exist");
  if (!group.has_any_link()) refuse(kind, "a device group has no rail");
  return group;
}

void put_rails(ByteWriter& writer, const NodeRails& rails) {
  writer.put(static_cast<std::uint16_t>(rails.size()));
  for (const GroupRails& group : rails) put_group(writer, group);
}

NodeRails get_rails(ByteReader& reader, Kind kind) {
  NodeRails rails(get_count(reader, kind, kMaxDeviceGroups));
  for (GroupRails& group : rails) group = get_group(reader, kind);
  return rails;
}

GroupRails rails_of(const std::vector<LinkAddress>& links) {
  GroupRails group(links.size());
  for (std::size_t rail = 0; rail < links.size(); ++rail) {
    if (links[rail].endpoint.empty()) group.leave_out(RailIndex(static_cast<std::uint16_t>(rail)));
  }
  return group;
}

void put_links(ByteWriter& writer, const NodeLinks& links) {
  writer.put(links.receive_credit);
  writer.put(links.process_id);
  writer.put(static_cast<std::uint16_t>(links.groups.size()));
  for (const auto& rails : links.groups) {
    put_group(writer, rails_of(rails));
    for (const LinkAddress& link : rails) {
      if (link.endpoint.empty()) continue;
      writer.put_blob(link.endpoint);
      writer.put(link.grant_key);
      writer.put(link.grant_base);
    }
  }
}

NodeLinks get_links(ByteReader& reader, Kind kind) {
  NodeLinks links;
  links.receive_credit = reader.get<std::uint32_t>();
  links.process_id = reader.get<std::uint32_t>();
  links.groups.resize(get_count(reader, kind, kMaxDeviceGroups));
  for (auto& rails : links.groups) {
    const GroupRails group = get_group(reader, kind);
    rails.resize(group.count());
    for (std::size_t rail = 0; rail < rails.size(); ++rail) {
      if (!group.has_link(rail)) continue;
      LinkAddress& link = rails[rail];
      link.endpoint = reader.get_blob(kMaxEndpoint);
      link.grant_key = reader.get<std::uint64_t>();
      link.grant_base = reader.get<std::uint64_t>();
      if (link.endpoint.empty()) refuse(kind, "an endpoint has no address");
    }
  }
  return links;
}

}  // namespace

NodeRails NodeLinks::rails() const {
  NodeRails rails;
  for (const auto& group : groups) rails.push_back(rails_of(group));
  return rails;
}

Bytes encode_offer(const std::vector<Offer::ProviderRails>& providers, const HostProof& host) {
  ByteWriter writer = begin(Kind::kOffer);
  host.put_claim(writer);
  writer.put(static_cast<std::uint16_t>(providers.size()));
  for (const Offer::ProviderRails& provider : providers) {
    writer.put_text(provider.name);
    put_rails(writer, provider.rails);
  }
  return writer.take();
}

Offer Offer::parse(std::span<const std::byte> bytes) {
  ByteReader reader = open(Kind::kOffer, bytes);
  Offer offer;
  offer.claim = HostClaim::get(reader);
  offer.providers.resize(get_count(reader, Kind::kOffer, kMaxProviders));
  for (ProviderRails& provider : offer.providers) {
    provider.name = reader.get_text(kMaxName);
    provider.rails = get_rails(reader, Kind::kOffer);
  }
  close(Kind::kOffer, reader);
  return offer;
}

Bytes Answer::encode() const {
  ByteWriter writer = begin(Kind::kAnswer);
  writer.put_text(provider);
  writer.put_text(reason);
  writer.put_blob(host_proof);
  put_rails(writer, offered);
  put_links(writer, links);
  return writer.take();
}

Answer Answer::parse(std::span<const std::byte> bytes) {
  ByteReader reader = open(Kind::kAnswer, bytes);
  Answer answer;
  answer.provider = reader.get_text(kMaxName);
  answer.reason = reader.get_text(kMaxReason);
  answer.host_proof = reader.get_blob(kMaxProof);
  answer.offered = get_rails(reader, Kind::kAnswer);
  answer.links = get_links(reader, Kind::kAnswer);
  close(Kind::kAnswer, reader);
  return answer;
}

Bytes Confirm::encode() const {
  ByteWriter writer = begin(Kind::kConfirm);
  put_links(writer, links);
  return writer.take();
}

Confirm Confirm::parse(std::span<const std::byte> bytes) {
  ByteReader reader = open(Kind::kConfirm, bytes);
  Confirm confirm{get_links(reader, Kind::kConfirm)};
  close(Kind::kConfirm, reader);
  return confirm;
}

Bytes RegionDescriptor::encode() const {
  ByteWriter writer = begin(Kind::kRegion);
  writer.put(group.value());
  writer.put(size_bytes);
  writer.put(static_cast<std::uint16_t>(providers.size()));
  for (const ProviderKeys& provider : providers) {
    writer.put_text(provider.provider);
    writer.put(static_cast<std::uint16_t>(provider.rails.size()));
    for (const RailKey& rail : provider.rails) {
      writer.put(rail.key);
      writer.put(rail.base);
    }
  }
  return writer.take();
}

RegionDescriptor RegionDescriptor::parse(std::span<const std::byte> bytes) {
  ByteReader reader = open(Kind::kRegion, bytes);
  RegionDescriptor region;
  region.group = DeviceGroupId(reader.get<std::uint16_t>());
  region.size_bytes = reader.get<std::uint64_t>();
  region.providers.resize(get_count(reader, Kind::kRegion, kMaxProviders));
  for (ProviderKeys& provider : region.providers) {
    provider.provider = reader.get_text(kMaxName);
    provider.rails.resize(get_count(reader, Kind::kRegion, kMaxRailsPerGroup));
    for (RailKey& rail : provider.rails) {
      rail.key = reader.get<std::uint64_t>();
      rail.base = reader.get<std::uint64_t>();
      if (rail.base > ~std::uint64_t{0} - region.size_bytes) {
        refuse(Kind::kRegion, "base and length overflow");
      }
    }
  }
  close(Kind::kRegion, reader);
  if (region.size_bytes == 0) refuse(Kind::kRegion, "its length is zero");
  return region;
}

}  // namespace kvrail

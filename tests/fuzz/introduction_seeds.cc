#include <algorithm>

#include "fabric/introduction.h"
#include "fuzz/fuzz_target.h"

namespace kvrail {
namespace {

NodeLinks sample_links() {
  NodeLinks links;
  links.receive_credit = 1024;
  links.process_id = 4711;
  for (std::uint64_t group = 0; group < 2; ++group) {
    links.groups.push_back({{Bytes(16, std::byte{0x7f}), 0x1234 + group, 0x1000},
                            {Bytes(16, std::byte{0x80}), 0x5678 + group, 0x2000}});
  }
  return links;
}

// An offer without what differs from run to run: the process, its descriptor and the secret's hash
// stand behind the header (7 bytes) and the boot id (a length and 36 characters).
Bytes sample_offer() {
  constexpr std::size_t kBootIdAt = 7 + 4;
  constexpr std::size_t kBootIdBytes = 36;
  Bytes offer = encode_offer(
      {{"shm", {GroupRails(1), GroupRails(2)}}, {"tcp", {GroupRails(4), GroupRails(4, 0b1011)}}},
      HostProof());
  const auto claim = offer.begin() + kBootIdAt;
  std::fill(claim, claim + kBootIdBytes, std::byte{'b'});
  const auto process = claim + kBootIdBytes;
  std::fill(process, process + 8, std::byte{1});
  std::fill(process + 12, process + 12 + 32, std::byte{2});
  return offer;
}

}  // namespace

std::vector<std::vector<std::byte>> fuzz_seeds() {
  Answer answer{"shm",
                "both sides are on this host",
                Bytes(32, std::byte{0x5a}),
                {GroupRails(4), GroupRails(4, 0b1011)},
                sample_links()};
  RegionDescriptor region;
  region.group = DeviceGroupId(1);
  region.size_bytes = 1u << 20;
  region.providers = {{"shm", {{1, 0x7f0000000000}}}, {"tcp", {{2, 0}, {3, 0}}}};
  return {sample_offer(), answer.encode(), Confirm{sample_links()}.encode(), region.encode()};
}

}  // namespace kvrail

#include "fabric/introduction.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kvrail/error.h"

namespace kvrail {
namespace {

NodeLinks sample_links() {
  NodeLinks links;
  links.receive_credit = 77;
  links.process_id = 123;
  links.groups = {{{Bytes(16, std::byte{1}), 10, 20}}, {{Bytes(8, std::byte{2}), 30, 40}}};
  return links;
}

void expect_same(const NodeLinks& a, const NodeLinks& b) {
  EXPECT_EQ(a.receive_credit, b.receive_credit);
  EXPECT_EQ(a.process_id, b.process_id);
  ASSERT_EQ(a.rails(), b.rails());
  for (std::size_t g = 0; g < a.groups.size(); ++g) {
    for (std::size_t r = 0; r < a.groups[g].size(); ++r) {
      EXPECT_EQ(a.groups[g][r].endpoint, b.groups[g][r].endpoint);
      EXPECT_EQ(a.groups[g][r].grant_key, b.groups[g][r].grant_key);
      EXPECT_EQ(a.groups[g][r].grant_base, b.groups[g][r].grant_base);
    }
  }
}

TEST(Introduction, SurvivesTheWire) {
  const Answer answer{"shm", "because", Bytes(32, std::byte{9}), {GroupRails(2)}, sample_links()};
  const Answer read = Answer::parse(answer.encode());
  EXPECT_EQ(read.provider, "shm");
  EXPECT_EQ(read.reason, "because");
  EXPECT_EQ(read.host_proof, answer.host_proof);
  expect_same(read.links, answer.links);
  expect_same(Confirm::parse(Confirm{sample_links()}.encode()).links, sample_links());

  const Offer offer = Offer::parse(encode_offer(
      {{"tcp", {GroupRails(2), GroupRails(3)}}, {"shm", {GroupRails(1), GroupRails(1)}}},
      HostProof()));
  ASSERT_EQ(offer.providers.size(), 2u);
  EXPECT_EQ(offer.providers[0].name, "tcp");
  EXPECT_EQ(offer.providers[0].rails, (NodeRails{GroupRails(2), GroupRails(3)}));
}

TEST(Introduction, SaysWhichRailsHaveLinks) {
  NodeLinks links = sample_links();
  links.groups[0] = {{}, {Bytes(16, std::byte{1}), 10, 20}, {}, {Bytes(16, std::byte{2}), 30, 40}};
  const NodeRails rails = {GroupRails(4, 0b1010), GroupRails(1)};
  EXPECT_EQ(links.rails(), rails);
  const Answer answer{"tcp", "", {}, {GroupRails(64, 0b101)}, links};
  const Answer read = Answer::parse(answer.encode());
  expect_same(read.links, links);
  EXPECT_EQ(read.links.rails(), rails);
  EXPECT_EQ(read.offered, answer.offered);
  const Offer offer = Offer::parse(encode_offer({{"tcp", rails}}, HostProof()));
  EXPECT_EQ(offer.providers[0].rails, rails);
}

TEST(Introduction, RefusesRailsThatDoNotExistAndGroupsWithoutOne) {
  // Behind the header, the credit, the process and the number of groups: a count and its links.
  constexpr std::size_t kLinkedAt = 7 + 4 + 4 + 2 + 2;
  const Bytes confirm = Confirm{sample_links()}.encode();
  ASSERT_EQ(confirm[kLinkedAt], std::byte{1});
  for (const std::byte linked : {std::byte{0}, std::byte{2}, std::byte{3}}) {
    Bytes changed = confirm;
    changed[kLinkedAt] = linked;
    try {
      Confirm::parse(changed);
      ADD_FAILURE() << "taken: " << std::to_integer<int>(linked);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMalformed);
    }
  }
}

TEST(Introduction, RefusesAnotherKindAnotherVersionAndOverflow) {
  const Bytes confirm = Confirm{sample_links()}.encode();
  EXPECT_THROW(Answer::parse(confirm), Error);
  Bytes newer = confirm;
  newer[4] = std::byte{99};
  try {
    Confirm::parse(newer);
    FAIL() << "another version was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kVersionMismatch);
    EXPECT_NE(std::strstr(error.what(), "99"), nullptr);
  }
  RegionDescriptor region;
  region.size_bytes = 2;
  region.providers = {{"tcp", {{1, ~std::uint64_t{0}}}}};
  EXPECT_THROW(RegionDescriptor::parse(region.encode()), Error);
}

TEST(HostProof, ProvesAndIsVerifiedWithinOneHost) {
  const HostProof host;
  const HostProof other;
  ByteWriter writer;
  host.put_claim(writer);
  const Bytes bytes = writer.take();
  ByteReader reader(bytes);
  const HostClaim claim = HostClaim::get(reader);
  ASSERT_TRUE(reader.finished());
  const auto proof = claim.prove();
  ASSERT_TRUE(proof);
  EXPECT_TRUE(host.verify(*proof));
  EXPECT_FALSE(other.verify(*proof));
  // The hash that was told is no proof: only a reader of the secret can make one.
  EXPECT_FALSE(host.verify(claim.secret_hash));
}

TEST(HostProof, ClaimsOfOtherHostsAndFilesAreNotProved) {
  const HostProof host;
  ByteWriter writer;
  host.put_claim(writer);
  const Bytes bytes = writer.take();
  ByteReader reader(bytes);
  const HostClaim honest = HostClaim::get(reader);
  HostClaim elsewhere = honest;
  elsewhere.boot_id = "00000000-0000-0000-0000-000000000000";
  EXPECT_FALSE(elsewhere.prove());
  HostClaim other_file = honest;
  other_file.descriptor = 0;
  EXPECT_FALSE(other_file.prove());
  HostClaim nobody = honest;
  nobody.process_id = 0;
  EXPECT_FALSE(nobody.prove());
  HostClaim wrong_secret = honest;
  wrong_secret.secret_hash[0] ^= std::byte{1};
  EXPECT_FALSE(wrong_secret.prove());
}

}  // namespace
}  // namespace kvrail

// The key schedule: both ends get the same, and nobody else does.

#include "wire/key_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kvrail/error.h"
#include "wire/sealed_frames.h"

namespace kvrail {
namespace {

using testing::HasSubstr;

// Two ends with known random parts, and what they say.
struct Ends {
  explicit Ends(const PreSharedKey& initiator_key = key_of(7),
                const PreSharedKey& acceptor_key = key_of(7))
      : initiator(initiator_key, secret_of(1), std::vector(32, std::byte{11})),
        acceptor(acceptor_key, secret_of(2), std::vector(32, std::byte{12})) {
    hello.node_name = "decode";
    hello.incarnation = 21;
    hello.auth = AuthScheme::kPreSharedKey;
    hello.nonce = initiator.nonce();
    hello.public_key = initiator.public_key();
    ack.node_name = "prefill";
    ack.incarnation = 22;
    ack.auth = AuthScheme::kPreSharedKey;
    ack.nonce = acceptor.nonce();
    ack.public_key = acceptor.public_key();
  }

  KeyExchange initiator;
  KeyExchange acceptor;
  HelloMessage hello;
  HelloAckMessage ack;
};

std::vector<std::string> hex(const SessionSecrets& secrets) {
  return {to_hex(secrets.acceptor_proof), to_hex(secrets.initiator_proof),
          to_hex(secrets.to_acceptor), to_hex(secrets.to_initiator)};
}

// Everything differs, in every place.
void expect_unlike(const SessionSecrets& a, const SessionSecrets& b) {
  for (const std::string& one : hex(a)) EXPECT_THAT(hex(b), testing::Not(testing::Contains(one)));
}

std::string refusal(const std::function<void(Ends&)>& spoil) {
  Ends ends;
  spoil(ends);
  try {
    ends.acceptor.agree(ends.hello, ends.ack);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnauthenticated);
    return error.what();
  }
  return "none";
}

TEST(KeyExchangeTest, WhatItDerivesIsKnown) {
  Ends ends;
  EXPECT_EQ(to_hex(ends.initiator.public_key()),
            "a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a209");
  EXPECT_THAT(
      hex(ends.initiator.agree(ends.hello, ends.ack)),
      testing::ElementsAre("760b26aee1d2b48d9d7b4d12c9efa4af050c66a6d12cd6bd64005afa158374ba",
                           "ada8d0aea5489c9a5f2970f05cf069199273919577a45aaaa9048dd9f0a1328b",
                           "5ce549938d096787e1f59ae6a21dcdf2058171417d65a2e555450e0e0de58ed6",
                           "bc4504104e3a0d908051fb1ea20f66ae85501876aed3040d975afd443e76526a"));
}

TEST(KeyExchangeTest, BothEndsAgree) {
  Ends ends;
  const auto here = hex(ends.initiator.agree(ends.hello, ends.ack));
  EXPECT_EQ(here, hex(ends.acceptor.agree(ends.hello, ends.ack)));
  // No two of them are alike: what one end says cannot be said back to it.
  for (std::size_t i = 0; i < here.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(here[i], here[k]);
  }
}

TEST(KeyExchangeTest, RandomPartsAreNeverTheSame) {
  const KeyExchange one(key_of(7));
  const KeyExchange two(key_of(7));
  EXPECT_NE(one.nonce(), two.nonce());
  EXPECT_NE(one.public_key(), two.public_key());
}

TEST(KeyExchangeTest, AnotherKeyGivesOtherSecrets) {
  Ends ends(key_of(7), key_of(8));
  expect_unlike(ends.initiator.agree(ends.hello, ends.ack),
                ends.acceptor.agree(ends.hello, ends.ack));
}

TEST(KeyExchangeTest, EveryFieldCounts) {
  const std::vector<std::function<void(Ends&)>> changes = {
      [](Ends& e) { e.hello.node_name = "decode2"; },
      [](Ends& e) { ++e.hello.incarnation; },
      [](Ends& e) { ++e.hello.protocol_version; },
      [](Ends& e) { e.hello.auth = AuthScheme::kNone; },
      [](Ends& e) { e.hello.nonce[31] ^= std::byte{1}; },
      [](Ends& e) { e.ack.node_name.clear(); },
      [](Ends& e) { --e.ack.incarnation; },
      [](Ends& e) { ++e.ack.protocol_version; },
      [](Ends& e) { e.ack.auth = AuthScheme::kNone; },
      [](Ends& e) { e.ack.nonce[0] ^= std::byte{128}; },
      [](Ends& e) { e.ack.public_key = KeyExchange(key_of(7)).public_key(); },
      // Bytes that move from one field to its neighbour.
      [](Ends& e) { std::swap(e.hello.node_name, e.ack.node_name); },
  };
  Ends ends;
  const SessionSecrets original = ends.initiator.agree(ends.hello, ends.ack);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    Ends changed;
    changes[i](changed);
    expect_unlike(original, changed.initiator.agree(changed.hello, changed.ack));
  }
}

TEST(KeyExchangeTest, TheProofInHelloAckIsNotPartOfIt) {
  Ends ends;
  const auto before = hex(ends.acceptor.agree(ends.hello, ends.ack));
  ends.ack.proof = std::vector(32, std::byte{1});
  EXPECT_EQ(hex(ends.initiator.agree(ends.hello, ends.ack)), before);
}

TEST(KeyExchangeTest, PublicKeysThatAreNoneAreRefused) {
  const auto with = [](const std::vector<std::byte>& public_key) {
    return refusal([&](Ends& e) { e.hello.public_key = public_key; });
  };
  EXPECT_THAT(with(std::vector(32, std::byte{0})), HasSubstr("small order"));
  std::vector one(32, std::byte{0});
  one[0] = std::byte{1};
  EXPECT_THAT(with(one), HasSubstr("small order"));
  EXPECT_THAT(with(std::vector(31, std::byte{3})), HasSubstr("public key of 31 bytes"));
  EXPECT_THAT(with({}), HasSubstr("public key of 0 bytes"));
  EXPECT_THAT(refusal([](Ends& e) { e.hello.public_key = e.ack.public_key; }),
              HasSubstr("sent back"));
}

TEST(KeyExchangeTest, NoncesOfAnotherSizeAreRefused) {
  EXPECT_THAT(refusal([](Ends& e) { e.hello.nonce.resize(31); }), HasSubstr("nonce of 31 bytes"));
  EXPECT_THAT(refusal([](Ends& e) { e.hello.nonce.resize(33); }), HasSubstr("nonce of 33 bytes"));
}

TEST(KeyExchangeTest, ProofsAreComparedWhole) {
  const std::vector proof(32, std::byte{5});
  EXPECT_TRUE(is_same_proof(proof, proof));
  EXPECT_FALSE(is_same_proof(proof, std::vector(31, std::byte{5})));
  EXPECT_FALSE(is_same_proof(proof, {}));
  for (std::size_t i = 0; i < proof.size(); ++i) {
    auto other = proof;
    other[i] ^= std::byte{1};
    EXPECT_FALSE(is_same_proof(proof, other)) << i;
  }
}

}  // namespace
}  // namespace kvrail

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "kvrail/pre_shared_key.h"
#include "wire/message.h"
#include "wire/secret.h"

namespace kvrail {

// What both ends of one control stream derive from the pre-shared key and their two hellos. Each
// end proves by its proof that it has the key and saw the same hellos. The two proofs and the two
// directions have keys of their own, so nothing that one end said can be said back to it.
struct SessionSecrets {
  std::vector<std::byte> acceptor_proof;
  std::vector<std::byte> initiator_proof;
  Secret to_acceptor;
  Secret to_initiator;
};

// Once per process is enough, and any number is allowed; the exchange and the ciphers need it.
// Throws Error (kUnsupported) where there is no source of random numbers. Threads: any.
void prepare_cryptography();

// One end's part in one introduction: an X25519 key pair and a nonce that are used once, so that
// later loss of the pre-shared key does not open what was recorded. docs/protocol.md has the
// derivation.
//
// Threads: one.
class KeyExchange {
 public:
  static constexpr std::size_t kNonceBytes = 32;
  static constexpr std::size_t kPublicKeyBytes = 32;

  // Throws Error (kUnsupported) where there is no source of random numbers.
  explicit KeyExchange(const PreSharedKey& key);
  // With the random parts given: for values that are known beforehand.
  KeyExchange(const PreSharedKey& key, const Secret& secret_key, std::vector<std::byte> nonce);

  // What this end's hello holds.
  const std::vector<std::byte>& nonce() const { return nonce_; }
  const std::vector<std::byte>& public_key() const { return public_key_; }

  // `ack`'s proof is not looked at. Throws Error (kUnauthenticated) for a peer whose nonce or
  // public key is of another size, whose public key is this end's own, or one with which no secret
  // can be had (zeros, or another point of small order).
  SessionSecrets agree(const HelloMessage& hello, const HelloAckMessage& ack) const;

 private:
  Secret shared_secret(std::span<const std::byte> peer_public_key) const;

  PreSharedKey key_;
  Secret secret_key_;
  std::vector<std::byte> nonce_;
  std::vector<std::byte> public_key_;
};

// Compares in a time that does not depend on the content.
bool is_same_proof(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace kvrail

#include "wire/key_exchange.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

static_assert(PreSharedKey::kBytes == crypto_generichash_KEYBYTES);
static_assert(Secret::kBytes == crypto_generichash_KEYBYTES);
static_assert(Secret::kBytes == crypto_generichash_BYTES);
static_assert(Secret::kBytes == crypto_kdf_KEYBYTES);
static_assert(Secret::kBytes == crypto_scalarmult_SCALARBYTES);
static_assert(Secret::kBytes == crypto_scalarmult_BYTES);
static_assert(KeyExchange::kPublicKeyBytes == crypto_scalarmult_BYTES);

constexpr std::string_view kDomain = "kvrail control stream";
constexpr char kContext[] = "kvrailcs";  // of crypto_kdf: 8 characters
static_assert(sizeof kContext == crypto_kdf_CONTEXTBYTES + 1);

// Numbers of the derived keys.
constexpr std::uint64_t kAcceptorProof = 1;
constexpr std::uint64_t kInitiatorProof = 2;
constexpr std::uint64_t kToAcceptor = 3;
constexpr std::uint64_t kToInitiator = 4;

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// BLAKE2b over fields: integers in little endian, all else behind its length, so that different
// fields are never the same bytes.
class Hash {
 public:
  explicit Hash(std::span<const std::byte> key = {}) {
    crypto_generichash_init(&state_, key.empty() ? nullptr : raw(key), key.size(), Secret::kBytes);
  }
  ~Hash() { sodium_memzero(&state_, sizeof state_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void add(std::uint64_t number) {
    std::array<std::byte, sizeof number> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(number >> (8 * i));
    }
    add_raw(bytes);
  }
  void add(std::span<const std::byte> bytes) {
    add(std::uint64_t{bytes.size()});
    add_raw(bytes);
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  void add(const Secret& secret) {
    crypto_generichash_update(&state_, secret.data(), Secret::kBytes);
  }
  template <class Hello>
  void add_hello(const Hello& hello) {
    add(std::uint64_t{hello.protocol_version});
    add(std::string_view(hello.node_name));
    add(hello.incarnation);
    add(static_cast<std::uint64_t>(hello.auth));
    add(std::span<const std::byte>(hello.nonce));
    add(std::span<const std::byte>(hello.public_key));
  }

  Secret end() {
    Secret result;
    crypto_generichash_final(&state_, result.data(), Secret::kBytes);
    return result;
  }

 private:
  void add_raw(std::span<const std::byte> bytes) {
    crypto_generichash_update(&state_, raw(bytes), bytes.size());
  }

  crypto_generichash_state state_;
};

Secret transcript_of(const HelloMessage& hello, const HelloAckMessage& ack) {
  Hash hash;
  hash.add(kDomain);
  hash.add(std::uint64_t{kProtocolVersion});
  hash.add_hello(hello);
  hash.add_hello(ack);
  return hash.end();
}

Secret derive(const Secret& master, std::uint64_t number) {
  Secret key;
  crypto_kdf_derive_from_key(key.data(), Secret::kBytes, number, kContext, master.data());
  return key;
}

std::vector<std::byte> prove(const Secret& key, const Secret& transcript) {
  std::vector<std::byte> proof(Secret::kBytes);
  crypto_generichash(reinterpret_cast<unsigned char*>(proof.data()), proof.size(),
                     transcript.data(), Secret::kBytes, key.data(), Secret::kBytes);
  return proof;
}

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kUnauthenticated, why); }

}  // namespace

void prepare_cryptography() {
  if (sodium_init() < 0) {
    throw Error(ErrorCode::kUnsupported,
                "libsodium finds no source of random numbers, which a pre-shared key needs (key of "
                "MessengerOptions): give the process getrandom() or /dev/urandom");
  }
}

KeyExchange::KeyExchange(const PreSharedKey& key)
    : key_(key), nonce_(kNonceBytes), public_key_(kPublicKeyBytes) {
  prepare_cryptography();
  randombytes_buf(secret_key_.data(), Secret::kBytes);
  randombytes_buf(nonce_.data(), nonce_.size());
  crypto_scalarmult_base(reinterpret_cast<unsigned char*>(public_key_.data()), secret_key_.data());
}

KeyExchange::KeyExchange(const PreSharedKey& key, const Secret& secret_key,
                         std::vector<std::byte> nonce)
    : key_(key), secret_key_(secret_key), nonce_(std::move(nonce)), public_key_(kPublicKeyBytes) {
  crypto_scalarmult_base(reinterpret_cast<unsigned char*>(public_key_.data()), secret_key_.data());
}

Secret KeyExchange::shared_secret(std::span<const std::byte> peer_public_key) const {
  Secret shared;
  if (crypto_scalarmult(shared.data(), secret_key_.data(), raw(peer_public_key)) != 0) {
    refuse("a public key of small order, with which there is no secret");
  }
  return shared;
}

SessionSecrets KeyExchange::agree(const HelloMessage& hello, const HelloAckMessage& ack) const {
  for (const auto* nonce : {&hello.nonce, &ack.nonce}) {
    if (nonce->size() != kNonceBytes) {
      refuse(fmt::format("a nonce of {} bytes, where {} are due", nonce->size(), kNonceBytes));
    }
  }
  for (const auto* public_key : {&hello.public_key, &ack.public_key}) {
    if (public_key->size() != kPublicKeyBytes) {
      refuse(fmt::format("a public key of {} bytes, where {} are due", public_key->size(),
                         kPublicKeyBytes));
    }
  }
  if (hello.public_key == ack.public_key) refuse("this node's own public key, sent back to it");
  const bool is_initiator = hello.public_key == public_key_;
  const Secret shared = shared_secret(is_initiator ? ack.public_key : hello.public_key);
  const Secret transcript = transcript_of(hello, ack);

  Hash hash(key_.bytes());
  hash.add(shared);
  hash.add(transcript);
  const Secret master = hash.end();
  return {.acceptor_proof = prove(derive(master, kAcceptorProof), transcript),
          .initiator_proof = prove(derive(master, kInitiatorProof), transcript),
          .to_acceptor = derive(master, kToAcceptor),
          .to_initiator = derive(master, kToInitiator)};
}

bool is_same_proof(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace kvrail

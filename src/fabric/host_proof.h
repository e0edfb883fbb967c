#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/byte_codec.h"
#include "base/unique_fd.h"

namespace kvrail {

// Lets a peer prove that it is on the same host, in the same process namespace and under the same
// user, which is what shared memory between the two needs: it reads a secret from an unlinked
// in-memory file of ours through /proc. IP addresses prove nothing.
//
// The claim (told to the peer) holds the boot id, our process id, the descriptor and a hash of the
// secret; the proof (the peer's answer) is another hash, which only a reader of the secret can
// make.
class HostProof {
 public:
  // Throws Error (kLimit) when no in-memory file can be made.
  HostProof();

  void put_claim(ByteWriter& writer) const;
  // Whether `proof` was made from our secret.
  bool verify(std::span<const std::byte> proof) const;

 private:
  Bytes secret_;
  UniqueFd file_;
  std::string boot_id_;
};

// A peer's claim. Everything in it is the peer's word until prove() has read the secret.
struct HostClaim {
  std::string boot_id;
  std::uint32_t process_id = 0;
  std::uint32_t descriptor = 0;
  Bytes secret_hash;

  static HostClaim get(ByteReader& reader);
  // The proof if the peer is on this host; none otherwise.
  std::optional<Bytes> prove() const;
};

}  // namespace kvrail

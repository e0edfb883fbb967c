#include "fabric/host_proof.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include "kvrail/error.h"

namespace kvrail {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kHashBytes = crypto_generichash_BYTES;
constexpr std::string_view kFileName = "kvrail-host-proof";
constexpr std::size_t kMaxBootId = 64;

std::string read_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

Bytes hash(std::string_view purpose, std::span<const std::byte> secret) {
  Bytes out(kHashBytes);
  crypto_generichash(reinterpret_cast<unsigned char*>(out.data()), out.size(),
                     reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size());
  return out;
}

// Keys of the two hashes: at least crypto_generichash_KEYBYTES_MIN (16) characters.
constexpr std::string_view kClaimPurpose = "kvrail host claim";
constexpr std::string_view kProofPurpose = "kvrail host proof";

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

HostProof::HostProof()
    : secret_(kSecretBytes),
      file_(::memfd_create(kFileName.data(), MFD_CLOEXEC)),
      boot_id_(read_boot_id()) {
  if (sodium_init() < 0) {
    throw Error(ErrorCode::kUnsupported, "libsodium cannot find a source of random numbers");
  }
  randombytes_buf(secret_.data(), secret_.size());
  if (!file_ || ::pwrite(file_.get(), secret_.data(), secret_.size(), 0) !=
                    static_cast<ssize_t>(secret_.size())) {
    throw Error(ErrorCode::kLimit,
                fmt::format("cannot make an in-memory file: {}; raise the limit of open files "
                            "(ulimit -n)",
                            std::strerror(errno)));
  }
}

void HostProof::put_claim(ByteWriter& writer) const {
  writer.put_text(boot_id_);
  writer.put(static_cast<std::uint32_t>(::getpid()));
  writer.put(static_cast<std::uint32_t>(file_.get()));
  writer.put_blob(hash(kClaimPurpose, secret_));
}

bool HostProof::verify(std::span<const std::byte> proof) const {
  return equal(proof, hash(kProofPurpose, secret_));
}

HostClaim HostClaim::get(ByteReader& reader) {
  HostClaim claim;
  claim.boot_id = reader.get_text(kMaxBootId);
  claim.process_id = reader.get<std::uint32_t>();
  claim.descriptor = reader.get<std::uint32_t>();
  claim.secret_hash = reader.get_blob(kHashBytes);
  return claim;
}

std::optional<Bytes> HostClaim::prove() const {
  if (boot_id.empty() || boot_id != read_boot_id()) return std::nullopt;
  const std::string path = fmt::format("/proc/{}/fd/{}", process_id, descriptor);
  // The numbers are the peer's word: only a file of the expected kind is opened at all.
  std::array<char, 64> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size() - 1);
  if (length <= 0 ||
      std::string_view(target.data()).rfind(fmt::format("/memfd:{}", kFileName), 0) != 0) {
    return std::nullopt;
  }
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Bytes secret(kSecretBytes);
  if (!file ||
      ::pread(file.get(), secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return std::nullopt;
  }
  if (!equal(hash(kClaimPurpose, secret), secret_hash)) return std::nullopt;
  return hash(kProofPurpose, secret);
}

}  // namespace kvrail

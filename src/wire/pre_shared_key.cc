#include "kvrail/pre_shared_key.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "kvrail/error.h"

namespace kvrail {
namespace {

constexpr std::size_t kDigits = 2 * PreSharedKey::kBytes;
// The digits and what white space an editor may leave behind them.
constexpr std::size_t kMaxFileBytes = kDigits + 64;

struct FileText {
  std::array<char, kMaxFileBytes> bytes;
  std::size_t size = 0;

  ~FileText() { sodium_memzero(bytes.data(), bytes.size()); }
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("the key file {} {}", path, why));
}

UniqueFd open_private(const std::string& path) {
  // Without O_NONBLOCK a pipe that nobody writes to would block here.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("cannot read the key file {}: {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) refuse(path, "is no regular file");
  if ((status.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) != 0) {
    refuse(path, fmt::format("has mode {:03o}, with which others than its owner may read or write "
                             "it: chmod 600 it, and make a new key if others had access",
                             status.st_mode & 0777u));
  }
  return file;
}

}  // namespace

PreSharedKey PreSharedKey::from_file(const std::string& path) {
  const UniqueFd file = open_private(path);
  FileText text;
  while (text.size < text.bytes.size()) {
    const auto count =
        ::read(file.get(), text.bytes.data() + text.size, text.bytes.size() - text.size);
    if (count < 0) {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("cannot read the key file {}: {}", path, std::strerror(errno)));
    }
    if (count == 0) break;
    text.size += static_cast<std::size_t>(count);
  }
  const char* const end = text.bytes.data() + text.size;
  const char* const digits_end = text.bytes.data() + std::min(text.size, kDigits);
  const bool only_space_follows = std::all_of(
      digits_end, end, [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
  PreSharedKey key;
  std::size_t size = 0;
  const int status =
      sodium_hex2bin(reinterpret_cast<unsigned char*>(key.bytes_.data()), kBytes, text.bytes.data(),
                     std::min(text.size, kDigits), nullptr, &size, nullptr);
  if (status != 0 || size != kBytes || !only_space_follows || text.size == text.bytes.size()) {
    refuse(path, fmt::format("holds something else than {} hexadecimal digits: make one with "
                             "\"openssl rand -hex {}\"",
                             kDigits, kBytes));
  }
  if (sodium_is_zero(reinterpret_cast<const unsigned char*>(key.bytes_.data()), kBytes) != 0) {
    refuse(path, fmt::format("holds zeros: make a key with \"openssl rand -hex {}\"", kBytes));
  }
  return key;
}

PreSharedKey PreSharedKey::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() != kBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a pre-shared key of {} bytes: {} random ones are needed", bytes.size(),
                            kBytes));
  }
  if (sodium_is_zero(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "a pre-shared key of zeros: fill it with random bytes first");
  }
  PreSharedKey key;
  std::copy(bytes.begin(), bytes.end(), key.bytes_.begin());
  return key;
}

PreSharedKey::~PreSharedKey() { sodium_memzero(bytes_.data(), bytes_.size()); }

}  // namespace kvrail

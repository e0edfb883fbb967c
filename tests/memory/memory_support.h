#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "kvrail/error.h"
#include "kvrail/shared_allocation.h"

namespace kvrail {

// Both ends of a connection.
struct SocketPair {
  explicit SocketPair(int type, int domain = AF_UNIX) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(domain, type | SOCK_CLOEXEC, 0, ends), 0) << std::strerror(errno);
    left = UniqueFd(ends[0]);
    right = UniqueFd(ends[1]);
  }

  UniqueFd left;
  UniqueFd right;
};

// One sendmsg() with these descriptors.
inline void send_raw(const UniqueFd& socket, std::span<const std::byte> bytes,
                     const std::vector<int>& descriptors = {}) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(253 * sizeof(int))> control{};
  iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t size = descriptors.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(part), descriptors.data(), size);
  }
  ASSERT_EQ(::sendmsg(socket.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()))
      << std::strerror(errno);
}

// The descriptors that this process holds now.
inline std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

// The shared allocations that this process maps now.
inline std::ptrdiff_t mapped_allocations() {
  std::ifstream maps("/proc/self/maps");
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:") != std::string::npos) ++count;
  }
  return count;
}

// What a call throws; kOk if nothing.
template <class Call>
std::pair<ErrorCode, std::string> error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kOk, ""};
}

// Expects that `call` throws this code, with a text that has these words.
template <class Call>
void expect_error(ErrorCode code, const std::vector<std::string>& words, Call call) {
  const auto [is, text] = error_of(call);
  EXPECT_EQ(to_string(is), to_string(code)) << text;
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << '"' << word << "\" is not in: " << text;
  }
}

// Lowers a limit of this process until it goes out of scope.
class LoweredLimit {
 public:
  LoweredLimit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    EXPECT_EQ(::getrlimit(resource, &before_), 0);
    rlimit lowered = before_;
    lowered.rlim_cur = value;
    EXPECT_EQ(::setrlimit(resource, &lowered), 0);
  }
  ~LoweredLimit() { ::setrlimit(resource_, &before_); }
  LoweredLimit(const LoweredLimit&) = delete;
  LoweredLimit& operator=(const LoweredLimit&) = delete;

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

// Content that tells every byte and every seed apart from its neighbours.
inline std::byte content(std::uint32_t seed, std::uint64_t offset) {
  std::uint64_t x = (offset + 1) * 0x9E3779B97F4A7C15u + seed * 0xC2B2AE3D27D4EB4Fu;
  x ^= x >> 29;
  return static_cast<std::byte>(x * 0xBF58476D1CE4E5B9u >> 56);
}

inline void fill(const SharedAllocation& memory, std::uint32_t seed) {
  for (std::uint64_t i = 0; i < memory.size_bytes(); ++i) memory.data()[i] = content(seed, i);
}

// Bytes that are not as fill() with this seed leaves them.
inline std::uint64_t wrong_bytes(const SharedAllocation& memory, std::uint32_t seed) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < memory.size_bytes(); ++i) {
    if (memory.data()[i] != content(seed, i)) ++wrong;
  }
  return wrong;
}

}  // namespace kvrail

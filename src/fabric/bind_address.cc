#include "fabric/bind_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "kvrail/error.h"

namespace kvrail {

void check_bind_address(const std::string& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), "0", &hints, &found) != 0) return;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const UniqueFd socket(::socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0));
  if (!socket || ::bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0) return;
  if (errno == EADDRNOTAVAIL) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("no interface of this host has the address {}: set bind_address to one "
                            "that has ('ip address' lists them)",
                            address));
  }
}

}  // namespace kvrail

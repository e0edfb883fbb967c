#include "fabric/socket_cut.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>

namespace kvrail {
namespace {

// Address and port, comparable; empty if it is neither IPv4 nor IPv6.
std::string key_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& inet = reinterpret_cast<const sockaddr_in&>(address);
    return {reinterpret_cast<const char*>(&inet.sin_port),
            sizeof inet.sin_port + sizeof inet.sin_addr};
  }
  if (address.ss_family == AF_INET6) {
    const auto& inet = reinterpret_cast<const sockaddr_in6&>(address);
    std::string key(reinterpret_cast<const char*>(&inet.sin6_port), sizeof inet.sin6_port);
    return key.append(reinterpret_cast<const char*>(&inet.sin6_addr), sizeof inet.sin6_addr);
  }
  return {};
}

std::string key_of(std::span<const std::byte> endpoint) {
  sockaddr_storage address{};
  if (endpoint.size() < sizeof(sockaddr_in) || endpoint.size() > sizeof address) return {};
  std::memcpy(&address, endpoint.data(), endpoint.size());
  return key_of(address);
}

using NameCall = int (*)(int, sockaddr*, socklen_t*);

std::string key_of(int descriptor, NameCall name) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (name(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return key_of(address);
}

struct DirCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

void cut_sockets(std::span<const std::byte> endpoint, std::span<const Bytes> peer_endpoints) {
  const std::string ours = key_of(endpoint);
  if (ours.empty()) return;
  std::set<std::string> theirs;
  for (const Bytes& peer : peer_endpoints) theirs.insert(key_of(peer));
  const std::unique_ptr<DIR, DirCloser> directory(::opendir("/proc/self/fd"));
  if (!directory) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    const int descriptor = std::atoi(entry->d_name);
    if (descriptor <= STDERR_FILENO) continue;
    const std::string remote = key_of(descriptor, ::getpeername);
    if (remote.empty()) continue;
    if (key_of(descriptor, ::getsockname) == ours || theirs.count(remote) != 0) {
      ::shutdown(descriptor, SHUT_RDWR);
    }
  }
}

}  // namespace kvrail

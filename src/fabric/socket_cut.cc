#include "fabric/socket_cut.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

// Calls `visit` with every descriptor of this process above the standard ones.
template <class Visitor>
void for_each_descriptor(Visitor visit) {
  const std::unique_ptr<DIR, DirCloser> directory(::opendir("/proc/self/fd"));
  if (!directory) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    const int descriptor = std::atoi(entry->d_name);
    if (descriptor > STDERR_FILENO) visit(descriptor);
  }
}

// 0 if it is not open.
ino_t inode_of(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

void cut_sockets(std::span<const std::byte> endpoint, std::span<const Bytes> peer_endpoints) {
  const std::string ours = key_of(endpoint);
  if (ours.empty()) return;
  std::set<std::string> theirs;
  for (const Bytes& peer : peer_endpoints) theirs.insert(key_of(peer));
  for_each_descriptor([&](int descriptor) {
    const std::string remote = key_of(descriptor, ::getpeername);
    if (remote.empty()) return;
    if (key_of(descriptor, ::getsockname) == ours || theirs.count(remote) != 0) {
      ::shutdown(descriptor, SHUT_RDWR);
    }
  });
}

SocketCut::SocketCut(std::span<const std::byte> endpoint) {
  const std::string ours = key_of(endpoint);
  if (ours.empty()) return;
  for_each_descriptor([&](int descriptor) {
    if (key_of(descriptor, ::getsockname) != ours) return;
    int listens = 0;
    socklen_t length = sizeof listens;
    ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length);
    ::shutdown(descriptor, SHUT_RDWR);
    if (listens == 0) accepted_.push_back({descriptor, inode_of(descriptor)});
  });
}

bool SocketCut::any_open() const {
  return std::any_of(accepted_.begin(), accepted_.end(), [](const Accepted& socket) {
    return inode_of(socket.descriptor) == socket.inode;
  });
}

}  // namespace kvrail

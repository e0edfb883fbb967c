#include "fabric/shm_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace kvrail {
namespace {

constexpr std::string_view kPrefix = "fi_shm://";

// The head of an endpoint's shared memory in libfabric 1.17, as far as it is looked at.
struct RegionHead {
  std::uint8_t version;
  std::uint8_t reserved;
  std::uint16_t flags;
  std::int32_t process_id;
  std::uint64_t peer_limits;
  std::uint64_t base_address;
  pthread_spinlock_t lock;
};
constexpr std::uint8_t kKnownVersion = 4;

// "1234:0:0", the name of the memory; empty if the address is none of shm.
std::string name_of(std::span<const std::byte> endpoint) {
  std::string_view text(reinterpret_cast<const char*>(endpoint.data()), endpoint.size());
  if (text.substr(0, kPrefix.size()) != kPrefix) return {};
  text.remove_prefix(kPrefix.size());
  text = text.substr(0, text.find('\0'));
  return text.find_first_not_of("0123456789:") == std::string_view::npos ? std::string(text)
                                                                         : std::string();
}

std::int32_t process_of(const std::string& name) {
  std::int32_t process_id = 0;
  std::from_chars(name.data(), name.data() + name.size(), process_id);
  return process_id;
}

}  // namespace

bool release_shm_lock(std::span<const std::byte> endpoint) {
  const std::string name = name_of(endpoint);
  if (name.empty()) return false;
  const UniqueFd file(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 ||
      status.st_size < static_cast<off_t>(sizeof(RegionHead))) {
    return false;
  }
  void* memory =
      ::mmap(nullptr, sizeof(RegionHead), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return false;
  auto* head = static_cast<RegionHead*>(memory);
  const bool known = head->version == kKnownVersion && head->process_id == process_of(name);
  if (known) ::pthread_spin_unlock(&head->lock);
  ::munmap(memory, sizeof(RegionHead));
  return known;
}

int open_shm_name(std::span<const std::byte> endpoint) {
  const std::string name = name_of(endpoint);
  if (name.empty()) return 0;
  const UniqueFd file(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  return file ? 0 : errno;
}

void remove_shm_name(std::span<const std::byte> endpoint) {
  if (const std::string name = name_of(endpoint); !name.empty()) ::shm_unlink(name.c_str());
}

std::int32_t process_of_shm(std::span<const std::byte> endpoint) {
  const std::string name = name_of(endpoint);
  return name.empty() ? 0 : process_of(name);
}

}  // namespace kvrail

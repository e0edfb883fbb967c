#include "fabric/shm_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace kvrail {
namespace {

// Shared memory that begins as an endpoint's of shm in libfabric 1.17 does.
class Endpoint {
 public:
  explicit Endpoint(std::uint8_t version = 4, std::int32_t process_id = ::getpid()) {
    const UniqueFd file(::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    EXPECT_TRUE(bool(file));
    EXPECT_EQ(::ftruncate(file.get(), 4096), 0);
    memory_ = static_cast<std::byte*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    std::memcpy(memory_, &version, sizeof version);
    std::memcpy(memory_ + 4, &process_id, sizeof process_id);
    ::pthread_spin_init(lock(), PTHREAD_PROCESS_SHARED);
  }
  ~Endpoint() {
    ::munmap(memory_, 4096);
    ::shm_unlink(name_.c_str());
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  pthread_spinlock_t* lock() { return reinterpret_cast<pthread_spinlock_t*>(memory_ + 24); }
  std::string address() const { return "fi_shm://" + name_; }
  bool has_name() const {
    return bool(UniqueFd(::shm_open(name_.c_str(), O_RDONLY | O_CLOEXEC, 0)));
  }

 private:
  const std::string name_ = std::to_string(::getpid()) + ":7:77";
  std::byte* memory_ = nullptr;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.c_str(), text.size() + 1));
}

TEST(ShmLock, GivesBackALockThatIsHeld) {
  Endpoint endpoint;
  ASSERT_EQ(::pthread_spin_lock(endpoint.lock()), 0);
  EXPECT_TRUE(release_shm_lock(bytes_of(endpoint.address())));
  EXPECT_EQ(::pthread_spin_trylock(endpoint.lock()), 0);
}

TEST(ShmLock, LeavesMemoryAloneThatLooksOtherwise) {
  {
    Endpoint newer(5);
    ASSERT_EQ(::pthread_spin_lock(newer.lock()), 0);
    EXPECT_FALSE(release_shm_lock(bytes_of(newer.address())));
    EXPECT_NE(::pthread_spin_trylock(newer.lock()), 0);
  }
  Endpoint of_another(4, ::getpid() + 1);
  ASSERT_EQ(::pthread_spin_lock(of_another.lock()), 0);
  EXPECT_FALSE(release_shm_lock(bytes_of(of_another.address())));
  EXPECT_NE(::pthread_spin_trylock(of_another.lock()), 0);
}

TEST(ShmLock, IgnoresWhatIsNoAddressOfShm) {
  for (const std::string address : {"", "fi_shm://", "fi_shm://no-such", "fi_shm://../etc/passwd",
                                    "fi_sockaddr_in://1:2", "fi_shm://999999999:0:0", "1234:0:0"}) {
    EXPECT_FALSE(release_shm_lock(bytes_of(address))) << address;
    remove_shm_name(bytes_of(address));
  }
  EXPECT_FALSE(release_shm_lock({}));
}

TEST(ShmLock, TakesANameAway) {
  Endpoint endpoint;
  EXPECT_TRUE(endpoint.has_name());
  EXPECT_EQ(open_shm_name(bytes_of(endpoint.address())), 0);
  remove_shm_name(bytes_of(endpoint.address()));
  EXPECT_FALSE(endpoint.has_name());
  EXPECT_EQ(open_shm_name(bytes_of(endpoint.address())), ENOENT);
  EXPECT_EQ(open_shm_name(bytes_of("sockaddr_in://1:2")), 0);
}

TEST(ShmLock, KnowsTheProcessOfAnEndpoint) {
  EXPECT_EQ(process_of_shm(bytes_of("fi_shm://1234:5:6")), 1234);
  EXPECT_EQ(process_of_shm(bytes_of("fi_shm://text:5:6")), 0);
  EXPECT_EQ(process_of_shm({}), 0);
}

}  // namespace
}  // namespace kvrail

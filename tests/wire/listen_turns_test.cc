// Who comes while more connections come than are accepted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "wire/control_loop.h"
#include "wire/loop_support.h"

namespace kvrail {
namespace {

using Clients = std::vector<std::unique_ptr<RawClient>>;

std::string own_address(const RawClient& client) {
  sockaddr_in own{};
  socklen_t size = sizeof own;
  EXPECT_EQ(::getsockname(client.fd(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  const std::uint32_t address = ntohl(own.sin_addr.s_addr);
  return "127.0.0." + std::to_string(address & 0xff) + ":" + std::to_string(ntohs(own.sin_port));
}

// Accepts 20 per second, and 10 at once.
class TurnsTest : public ::testing::Test {
 protected:
  TurnsTest() {
    address_ = loop_.listen(
        "127.0.0.1:0",
        [this](std::shared_ptr<ControlStream> stream) {
          const std::lock_guard lock(mutex_);
          accepted_.push_back(std::move(stream));
          changed_.notify_all();
        },
        [this](ControlLoop::Dropped why, const std::string& remote) {
          const std::lock_guard lock(mutex_);
          auto& dropped = why == ControlLoop::Dropped::kHungUp ? hung_up_ : too_many_;
          dropped.push_back(remote);
          changed_.notify_all();
        });
  }

  Clients come(std::size_t count, const char* from = "127.0.0.1") {
    Clients clients;
    for (std::size_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<RawClient>(address_, from));
    }
    return clients;
  }
  bool wait(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }
  bool wait_for_count(std::size_t count) {
    return wait([&] { return accepted_.size() >= count; });
  }
  // How many were accepted before it.
  std::size_t place_of(const RawClient& client) {
    std::size_t place = 0;
    const std::string own = own_address(client);
    EXPECT_TRUE(wait([&] {
      const auto is_it = [&](const auto& stream) { return stream->remote_address() == own; };
      const auto found = std::find_if(accepted_.begin(), accepted_.end(), is_it);
      place = static_cast<std::size_t>(found - accepted_.begin());
      return found != accepted_.end();
    })) << own;
    return place;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<std::shared_ptr<ControlStream>> accepted_;
  std::vector<std::string> hung_up_;
  std::vector<std::string> too_many_;

  ControlLoop loop_{ControlLimits{.max_accepts_per_second = 20}};
  std::string address_;
};

// All of them would take ten seconds.
TEST_F(TurnsTest, AnAddressWithManyConnectionsDelaysOthersByOneAtATime) {
  const Clients many = come(200);
  const RawClient other(address_, "127.0.0.2");
  const std::size_t place = place_of(other);
  EXPECT_LT(place, 100u);
  // And those that are many are served as well.
  EXPECT_TRUE(wait_for_count(place + 3));
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(hung_up_.size() + too_many_.size(), 0u);
}

TEST_F(TurnsTest, ThoseThatHungUpDelayNobody) {
  const Clients stay = come(10);
  ASSERT_TRUE(wait_for_count(10));
  come(200).clear();
  const RawClient client(address_);
  EXPECT_LT(place_of(client), 100u);
  ASSERT_TRUE(wait([&] { return hung_up_.size() >= 100; }));
  const std::lock_guard lock(mutex_);
  EXPECT_THAT(hung_up_.front(), ::testing::StartsWith("127.0.0.1:"));
}

TEST_F(TurnsTest, NoMoreThanSomeHundredsWaitAndWhoHasMostMakesRoom) {
  const Clients many = come(400);
  // 256 may wait, and some have been accepted; 400 a second would be far too many.
  ASSERT_TRUE(wait([&] { return too_many_.size() >= 20; }));
  const Clients few = come(20, "127.0.0.3");
  for (const auto& client : few) place_of(*client);
  const std::lock_guard lock(mutex_);
  for (const std::string& remote : too_many_) {
    EXPECT_THAT(remote, ::testing::StartsWith("127.0.0.1:"));
  }
}

TEST_F(TurnsTest, ThoseThatWaitAreClosedWithTheListener) {
  const Clients many = come(60);
  ASSERT_TRUE(wait_for_count(10));
  run_on(loop_, [&] { loop_.stop_listening(); });
  EXPECT_TRUE(many.back()->wait_for_end());
}

TEST_F(TurnsTest, AllAreAcceptedInTheEnd) {
  const Clients many = come(14, "127.0.0.3");
  const Clients others = come(8, "127.0.0.2");
  EXPECT_TRUE(wait_for_count(22));
  // One at a time again.
  const RawClient last(address_);
  EXPECT_EQ(place_of(last), 22u);
}

}  // namespace
}  // namespace kvrail

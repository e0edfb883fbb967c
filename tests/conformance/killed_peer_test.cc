#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "support/fabric_pair.h"

namespace kvrail {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::size_t kRuns = 4'000;
constexpr std::uint64_t kSize = 16 * 1024;

// The endpoints of shm that this process has open.
std::set<std::string> own_shm_names() {
  std::set<std::string> names;
  const std::string prefix = std::to_string(::getpid()) + ":";
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix)) names.insert(name);
  }
  return names;
}

// Takes the lock of an endpoint as a peer does that writes to it, and signals that something has
// come, without which nobody looks; false if it does not look as in libfabric 1.17.
bool take_shm_lock(const std::string& name) {
  constexpr std::size_t kLockAt = 24;
  constexpr std::size_t kSignalAt = 28;
  constexpr std::byte kKnownVersion{4};
  const UniqueFd file(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  void* mapping = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapping == MAP_FAILED) return false;
  auto* memory = static_cast<std::byte*>(mapping);
  const bool known = *memory == kKnownVersion;
  if (known) {
    auto* const lock = reinterpret_cast<pthread_spinlock_t*>(memory + kLockAt);
    // The stopped peer may hold it itself.
    poll_until([&] { return ::pthread_spin_trylock(lock) == 0; },
               Deadline(std::chrono::milliseconds(500)));
    std::atomic_ref(*reinterpret_cast<std::int32_t*>(memory + kSignalAt)).store(1);
  }
  ::munmap(mapping, 4096);
  return known;
}

class KilledPeer : public FabricTest {
 protected:
  // What a control path does when its connection ends.
  void peer_is_lost() {
    const PeerId peer = pair_.connection().initiator().peer;
    pair_.local().close_peer(peer, report_to(closed_));
    pair_.local().confirm_remote_closed(peer);
    ASSERT_TRUE(closed_->wait().has_value());
  }

  // Gigabytes: not done when the peer is stopped.
  static std::vector<WriteOutcome> submit_for_long(FabricLane& lane, CounterId counter) {
    std::vector<WriteOutcome> sent;
    for (int i = 0; i < 64; ++i) {
      sent.push_back(lane.submit(counter, strided_runs(kRuns, kSize, kSize, 4 * kMiB)));
    }
    return sent;
  }

  FabricPair pair_{GetParam()};
  Bystander bystander_{GetParam(), pair_.local()};
  ClosedOutcome closed_ = make_outcome<Closed>();
};

TEST_P(KilledPeer, TheTargetDies) {
  auto lane = pair_.lane_to_other({4 * kMiB, kRuns * kSize, {}, {}});
  const CounterId counter = lane.take_counter();
  std::vector<WriteOutcome> sent;
  for (std::size_t i = 0; i < 4; ++i) {
    sent.push_back(lane.submit(counter, strided_runs(kRuns, kSize, kSize, 4 * kMiB)));
  }
  ASSERT_TRUE(poll_until([&] { return lane.peek(counter).units_arrived > 0; }));
  pair_.remote().kill();
  if (GetParam().isolates_stopped_peers()) {
    ASSERT_TRUE(bystander_.works());
  }
  peer_is_lost();
  ASSERT_TRUE(bystander_.works());
  for (const auto& outcome : sent) {
    ASSERT_TRUE(outcome->wait().has_value());
    EXPECT_EQ(outcome->calls(), 1);
  }
  // Nobody reads the source any more: it can go.
  pair_.local().deregister(lane.source_region().id);
  ASSERT_TRUE(bystander_.works());
  EXPECT_TRUE(lane.target().guards_intact());
}

TEST_P(KilledPeer, TheSenderDies) {
  if (!survives_lost_peers(GetParam())) {
    GTEST_SKIP() << "this provider crashes when a peer goes away in mid-write";
  }
  auto lane = pair_.lane_to_local({4 * kMiB, kRuns * kSize, {}, {}});
  const CounterId counter = lane.take_counter();
  const auto reached = lane.expect(counter, 1'000'000);
  std::vector<WriteOutcome> sent;
  for (std::size_t i = 0; i < 4; ++i) {
    sent.push_back(lane.submit(counter, strided_runs(kRuns, kSize, kSize, 4 * kMiB)));
  }
  ASSERT_TRUE(poll_until([&] { return lane.peek(counter).units_arrived > 0; }));
  pair_.remote().kill();
  if (GetParam().isolates_stopped_peers()) {
    ASSERT_TRUE(bystander_.works());
  }
  peer_is_lost();
  ASSERT_TRUE(bystander_.works());
  const auto result = reached->wait();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status.code(), ErrorCode::kLinkClosed);
  EXPECT_EQ(reached->calls(), 1);
  // The target belongs to its owner again.
  lane.target().set(std::byte{0x3B});
  const std::vector<std::byte> after(lane.target().size_bytes(), std::byte{0x3B});
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(100),
                        [&] { return bool(same_bytes(after, lane.target().bytes())); }));
  pair_.local().deregister(lane.target_region().id);
  ASSERT_TRUE(bystander_.works());
}

// Both directions are under way, and nothing of the peer has been closed when the engine goes.
TEST_P(KilledPeer, ThenTheEngineIsDestroyed) {
  if (!survives_lost_peers(GetParam())) {
    GTEST_SKIP() << "this provider crashes when a peer goes away in mid-write";
  }
  std::vector<FabricLane> lanes;
  lanes.push_back(pair_.lane_to_other({4 * kMiB, kRuns * kSize, {}, {}}));
  lanes.push_back(pair_.lane_to_local({4 * kMiB, kRuns * kSize, {}, {}}));
  std::vector<WriteOutcome> sent;
  for (FabricLane& lane : lanes) {
    sent.push_back(lane.submit(lane.take_counter(), strided_runs(kRuns, kSize, kSize, 4 * kMiB)));
  }
  pair_.remote().kill();
  pair_.local().destroy_engine();
  EXPECT_EQ(sent[0]->calls(), 1);
}

// A restarted peer is another peer: it is introduced anew, and the dead one's links change nothing.
TEST_P(KilledPeer, AnotherTakesItsPlace) {
  auto lane = pair_.lane_to_other({4 * kMiB, 4 * kMiB, {}, {}});
  ASSERT_TRUE(lane.works());
  pair_.remote().kill();
  RemoteNode next(engine_options(GetParam()));
  FabricConnection connection(pair_.local(), next);
  FabricLane next_lane(connection.forward(), {kMiB, 2 * kMiB, {}, {}});
  ASSERT_TRUE(next_lane.works());
  peer_is_lost();
  ASSERT_TRUE(next_lane.works());
  EXPECT_NE(connection.initiator().peer, pair_.connection().initiator().peer);
}

// It is stopped within a write, given up, and ends later, when nobody speaks of it any more.
TEST_P(KilledPeer, AStoppedTargetDiesAfterItWasGivenUp) {
  auto lane = pair_.lane_to_other({4 * kMiB, kRuns * kSize, {}, {}});
  const CounterId counter = lane.take_counter();
  const auto sent = submit_for_long(lane, counter);
  ASSERT_TRUE(poll_until([&] { return lane.peek(counter).units_arrived > 0; }));
  ASSERT_TRUE(pair_.remote().process().stop());
  ASSERT_EQ(sent.back()->calls(), 0);
  pair_.local().close_peer(pair_.connection().initiator().peer, report_to(closed_));
  poll_until([&] { return closed_->calls() > 0; }, Deadline(std::chrono::milliseconds(200)));
  pair_.remote().kill();
  EXPECT_TRUE(poll_until([&] { return !pair_.local().tend_closed_peers(); }));
  EXPECT_TRUE(closed_->wait().has_value());
  for (const auto& outcome : sent) EXPECT_TRUE(outcome->wait().has_value());
  EXPECT_TRUE(bystander_.works());
}

// The same at the worst moment: it holds the lock of the memory through which it writes to us, so
// that our worker spins and sees nothing by itself.
TEST_P(KilledPeer, ALockThatIsLeftBehindAfterItWasGivenUp) {
  if (GetParam().provider != "shm") GTEST_SKIP() << "nothing is shared with the peer";
  RemoteNode target(engine_options(GetParam()));
  const auto before = own_shm_names();
  FabricConnection connection(pair_.local(), target);
  FabricLane lane(connection.forward(), {4 * kMiB, kRuns * kSize, {}, {}});
  const CounterId counter = lane.take_counter();
  const auto sent = submit_for_long(lane, counter);
  ASSERT_TRUE(poll_until([&] { return lane.peek(counter).units_arrived > 0; }));
  ASSERT_TRUE(target.process().stop());
  ASSERT_EQ(sent.back()->calls(), 0);
  const PeerId peer = connection.initiator().peer;
  int locks = 0;
  for (const std::string& name : own_shm_names()) {
    if (before.count(name) == 0 && take_shm_lock(name)) ++locks;
  }
  if (locks == 0) GTEST_SKIP() << "this libfabric's shared memory is laid out otherwise";
  // Until it spins our worker wakes from nap after nap.
  const auto wakeups = [&] { return pair_.local().stats().worker_wakeups; };
  ASSERT_TRUE(poll_until([&] {
    const auto so_far = wakeups();
    return holds_for(std::chrono::milliseconds(200), [&] { return wakeups() == so_far; });
  }));
  pair_.local().close_peer(peer, report_to(closed_));
  pair_.local().confirm_remote_closed(peer);
  EXPECT_TRUE(holds_for(std::chrono::milliseconds(100), [&] {
    return pair_.local().tend_closed_peers() && closed_->calls() == 0;
  }));
  target.kill();
  EXPECT_TRUE(poll_until([&] { return !pair_.local().tend_closed_peers(); }));
  EXPECT_TRUE(closed_->wait().has_value());
  for (const auto& outcome : sent) EXPECT_TRUE(outcome->wait().has_value());
  EXPECT_TRUE(bystander_.works());
}

KVRAIL_CONFORMANCE_TWO_PROCESSES(KilledPeer);

}  // namespace
}  // namespace kvrail

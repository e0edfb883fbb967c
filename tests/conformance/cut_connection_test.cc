#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/fabric_pair.h"

namespace kvrail {
namespace {

// The connected TCP sockets of this process.
std::vector<int> tcp_connections() {
  std::vector<int> connections;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    int type = 0;
    socklen_t length = sizeof type;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) continue;
    sockaddr_storage peer{};
    length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) connections.push_back(fd);
  }
  return connections;
}

class CutConnection : public FabricTest {};

// The kernel's connection ends in the middle of a batch. What was counted is there; what is not
// there was not counted.
TEST_P(CutConnection, NoCountWithoutItsBytes) {
  if (!GetParam().over_tcp()) GTEST_SKIP() << "its links are no TCP connections";
  if (!survives_lost_peers(GetParam())) {
    GTEST_SKIP() << "this provider crashes when a peer goes away in mid-write";
  }
  constexpr std::uint64_t kSlotBytes = 64 * 1024;
  constexpr std::size_t kSlots = 400;
  std::mt19937_64 random(10);
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    FabricPair pair(GetParam());
    auto warm_up = pair.lane_to_other({4096, 4096, {}, {}});
    ASSERT_TRUE(warm_up.works());
    auto lane = pair.lane_to_other({kSlots * kSlotBytes, kSlots * kSlotBytes, {}, {}}, 7);
    ASSERT_FALSE(tcp_connections().empty());

    struct Slot {
      CounterOutcome reached;
      WriteOutcome sent;
    };
    std::vector<Slot> slots;
    for (std::size_t i = 0; i < kSlots; ++i) {
      const CounterId counter = lane.take_counter();
      auto reached = lane.expect(counter, 4);
      std::vector<WriteRun> runs;
      for (const std::uint64_t piece : {2, 0, 3, 1}) {
        const std::uint64_t at = i * kSlotBytes + piece * kSlotBytes / 4;
        runs.push_back({at, at, kSlotBytes / 4, 1});
      }
      slots.push_back({std::move(reached), lane.submit(counter, std::move(runs))});
      if (i == kSlots / 8 + random() % (kSlots / 2)) {
        ASSERT_TRUE(poll_until([&] { return slots.front().reached->calls() > 0; }));
        for (const int fd : tcp_connections()) ::shutdown(fd, SHUT_RDWR);
      }
    }
    const auto ended = [&] {
      if (!pair.no_errors()) return true;
      for (const Slot& slot : slots) {
        if (slot.sent->calls() == 0) return false;
      }
      return true;
    };
    // A submission may wait for credit that the cut has taken with it; only an error or the end of
    // the peer tells.
    poll_until(ended, Deadline(std::chrono::seconds(2)));
    ASSERT_TRUE(pair.connection().close());
    std::size_t full = 0;
    for (std::size_t i = 0; i < kSlots; ++i) {
      const auto sent = slots[i].sent->wait();
      const auto reached = slots[i].reached->wait();
      ASSERT_TRUE(sent.has_value() && reached.has_value()) << "slot " << i;
      if (!reached->status.ok()) continue;
      ++full;
      const auto bytes = [&](TestMemory& memory) {
        return memory.bytes().subspan(i * kSlotBytes, kSlotBytes);
      };
      EXPECT_TRUE(same_bytes(bytes(lane.source()), bytes(lane.target()))) << "slot " << i;
    }
    EXPECT_GT(full, 0U);
    EXPECT_TRUE(lane.target().guards_intact());
  }
}

KVRAIL_CONFORMANCE(CutConnection);

}  // namespace
}  // namespace kvrail
